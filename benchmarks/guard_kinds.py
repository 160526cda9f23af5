"""How often the guard stops a harmless plan, and passes a planted fault, in trainings of many kinds.

    python -m benchmarks.guard_kinds --seeds 2

Each training of benchmarks/workloads/kinds.py (GANs, recurrent networks, a transformer, ...) is guarded under
plans that change nothing but rounding, and with faults planted: one percent of a first layer's gradient, and
five percent of all, the latter by the measure of bfloat16, too. Appends a line a run to
``benchmarks/results/guard_kinds.jsonl``; begun runs are gone on with.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench import faulty_techniques
from tests.bench.faulty_techniques import FAULTS, SLIGHT
from tests.bench.known_techniques import known_to_workers
from tests.inside.distributed.forked import workers_forked
from tests.scripts.trial import trials_for

from hasten.machine import this_machine
from hasten.records.plan import Plan

from . import guard_cnns
from .false_wins import commit, rows_of
from .guard_alarms import guarded
from .guard_rows import counted, upper_bound
from .results import FOLDER, now

FILE = FOLDER / "guard_kinds.jsonl"
SCRIPT = Path(__file__).parent / "workloads" / "kinds.py"
KINDS = (
    *("LSTM", "GRU, SGD with momentum", "transformer with dropout", "embedding bag, SGD with momentum"),
    *("perceptron with dropout", "GAN of linear layers", "GAN of convolutions", "variational autoencoder"),
)
STEPS = 60
HARMLESS: dict[str, tuple[Plan, str]] = {  # with the precision by which they are measured
    "bf16": (Plan({"bf16": {}}), "bfloat16"),
    "fused_optimizer": (Plan({"fused_optimizer": {}}), "float32"),
    "both": (Plan({"bf16": {}, "fused_optimizer": {}}), "bfloat16"),
}
PLANTED = {
    SLIGHT: (Plan({SLIGHT: {}}), "float32"),
    "gradients_scaled": (Plan({"gradients_scaled": {}}), "float32"),
    "gradients_scaled, bfloat16": (Plan({"gradients_scaled": {}}), "bfloat16"),
}
Case = tuple[str, str, int]  # kind, plan, seed


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + asked.seconds
    done = {(row["script"], row["plan"], row["seed"]) for row in rows_of(asked.file)}
    with workers_forked(), known_to_workers(faulty_techniques.__file__, FAULTS):
        for case in cases(range(asked.first_seed, asked.first_seed + asked.seeds)):
            if case in done or time.monotonic() > until:
                continue
            row = one_run(case)
            with asked.file.open("a") as appended:
                appended.write(json.dumps(row) + "\n")
            print(f"{', '.join(map(str, case))}: {'; '.join(row['reasons']) or row['outcome']}", flush=True)
    print(summary(rows_of(asked.file), rows_of(guard_cnns.FILE)))


def cases(seeds: range) -> Iterator[Case]:
    """Harmless plans from every seed, faults from the first alone."""
    for seed in seeds:
        for kind in KINDS:
            for plan in (*HARMLESS, *(PLANTED if seed == seeds[0] else ())):
                yield kind, plan, seed


def one_run(case: Case) -> dict[str, Any]:
    kind, name, seed = case
    plan, precision = {**HARMLESS, **PLANTED}[name]
    began, at = time.monotonic(), now()
    with (
        tempfile.TemporaryDirectory() as folder,
        trials_for(SCRIPT, Path(folder), (kind, "--seed", str(seed))) as trials,
    ):
        found = guarded(trials, plan, False, precision, seed, STEPS)
    found.pop("raw", None)
    return {
        **{"kind": "fault" if name in PLANTED else "harmless", "script": kind, "plan": name, "seed": seed},
        **{"began": at, **found, "seconds": round(time.monotonic() - began, 2)},
        **{"machine": this_machine().identity, "torch": version("torch"), "commit": commit()},
    }


def summary(rows: Sequence[Mapping[str, Any]], of_networks: Sequence[Mapping[str, Any]]) -> str:
    """False alarms and missed faults by kind of model; ``of_networks``: rows of benchmarks/guard_cnns.py."""
    since = [row for row in of_networks if row["began"] >= guard_cnns.MORE_BASELINES]
    alarms, harmless = guard_cnns.stopped(since, guard_cnns.HARMLESS)
    caught, faults = guard_cnns.stopped(since, guard_cnns.FAULT)
    lines = [
        "| kind of model | false alarms in harmless runs | at most, with 95% confidence | faults missed |",
        "|---|---|---|---|",
        _line("convolutional network (the ten above)", alarms, harmless, faults - caught, faults),
    ]
    for kind in KINDS:
        mine = [row for row in rows if row["script"] == kind]
        lines.append(_line(kind, *_counts(mine)))
    lines += [_line("all kinds but convolutional networks", *_counts(rows))] if rows else []
    return "\n".join(lines)


def _counts(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int, int, int]:
    """False alarms, of how many harmless runs; missed faults, of how many."""
    harmless, faults = counted(rows, "harmless"), counted(rows, "fault")
    alarms = sum(row["outcome"] == "stopped" for row in harmless)
    return alarms, len(harmless), sum(row["outcome"] == "passed" for row in faults), len(faults)


def _line(what: str, alarms: int, harmless: int, missed: int, faults: int) -> str:
    bound = f"{upper_bound(alarms, harmless):.1%}" if harmless else "-"
    return f"| {what} | {alarms} of {harmless} | {bound} | {missed} of {faults} |"


if __name__ == "__main__":
    main(sys.argv[1:])
