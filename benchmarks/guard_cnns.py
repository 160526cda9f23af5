"""How often the guard stops ``channels_last`` on ten convolutional networks, on several processors.

    python -m benchmarks.guard_cnns --seeds 5

Each network of benchmarks/workloads/cnns.py is guarded over ``STEPS`` steps from each seed, by the kernels of
this processor and of others that it can imitate (``ONEDNN_MAX_CPU_ISA``). The plan is harmless, so each stop
is a false alarm. In every network also a fault is planted, one percent of its first layer's gradient, which
must be caught. Appends a line a run to ``benchmarks/results/guard_cnns.jsonl``; begun runs are gone on with,
and what another machine has run is run on this one, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench import faulty_techniques
from tests.bench.faulty_techniques import FAULTS, SLIGHT
from tests.bench.known_techniques import known_to_workers
from tests.inside.distributed.forked import workers_forked
from tests.scripts.trial import trials_for

from hasten.bench.guard.guard import judged_closely, three_trainings
from hasten.bench.guard.judging import verdict_on
from hasten.bench.trials import Trials
from hasten.machine import this_machine
from hasten.records.codec import to_json
from hasten.records.plan import Plan
from hasten.report.guard import reasons

from .false_wins import commit, rows_of
from .guard_rows import upper_bound
from .results import FOLDER, now

FILE = FOLDER / "guard_cnns.jsonl"
SCRIPT = Path(__file__).parent / "workloads" / "cnns.py"
NETWORKS = (
    *("plain", "batch norm and biases", "batch norm without biases", "batch norm and dropout"),
    *("dropout of channels", "group norm", "weight decay", "strides, SGD with momentum", "residual"),
    "separable",
)
STEPS = 60
HARMLESS, FAULT = "channels_last", SLIGHT
ISAS = ("", "AVX2", "SSE41")  # "": all that this processor has
MORE_BASELINES = "2026-11-25T20:55:00+00:00"  # since when more of them are trained before a plan is stopped
OF_SINGLE_STEPS = "2026-11-25T21:22:00+00:00"  # since when single steps are held against these, too
FIRST_LOOK, CLOSER_LOOK = 3, 8  # trainings of a run that goes no further
Row = Mapping[str, Any]
Case = tuple[str, str, str, int]  # processor, network, plan, seed


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--isa", help="run those of this processor, in this process")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    asked = parser.parse_args(arguments)
    if asked.isa is not None:
        seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
        run_all(asked.isa, seeds, asked.file, time.monotonic() + asked.seconds)
        return
    until = time.monotonic() + asked.seconds
    for isa in ISAS:
        environment = {**os.environ, **({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})}
        words = [f"--isa={isa}", f"--seeds={asked.seeds}", f"--first-seed={asked.first_seed}"]
        words += [f"--file={asked.file.absolute()}", f"--seconds={until - time.monotonic()}"]
        subprocess.run([sys.executable, "-m", "benchmarks.guard_cnns", *words], env=environment, check=True)
    print(summary(rows_of(asked.file)))


def run_all(isa: str, seeds: range, file: Path, until: float) -> None:
    here = this_machine().identity
    rows = [row for row in rows_of(file) if row["machine"] == here]
    done = {(row["isa"], row["script"], row["plan"], row["seed"]) for row in rows}
    with workers_forked(), known_to_workers(faulty_techniques.__file__, FAULTS):
        for case in cases(isa, seeds):
            if case in done or time.monotonic() > until:
                continue
            row = one_run(case)
            with file.open("a") as appended:
                appended.write(json.dumps(row) + "\n")
            said = "; ".join(row["reasons"]) or row["accuracy"]
            print(f"{isa or 'all instructions'}, {case[1]}, {case[2]}, {case[3]}: {said}", flush=True)


def cases(isa: str, seeds: range) -> Iterator[Case]:
    """One seed after the other; the fault from the first alone."""
    for seed in seeds:
        for name in NETWORKS:
            yield isa, name, HARMLESS, seed
            if seed == seeds[0]:
                yield isa, name, FAULT, seed


def one_run(case: Case) -> dict[str, Any]:
    isa, name, plan, seed = case
    began, at = time.monotonic(), now()
    with tempfile.TemporaryDirectory() as folder:
        trials: Trials
        with trials_for(SCRIPT, Path(folder), (name, "--seed", str(seed))) as trials:
            how = Plan({plan: {}}), False, "float32", seed, STEPS
            trainings = three_trainings(trials, *how)
            first = verdict_on(*trainings, *how[1:3])
            verdict = judged_closely(trials, how[0], trainings, *how[1:])
            assert trials.folder is not None
            trained = len(list(trials.folder.glob("worker-*.stdout")))
    return {
        **{"isa": isa, "script": name, "plan": plan, "seed": seed, "accuracy": verdict.accuracy},
        **{"reasons": reasons(verdict), "at_first": reasons(first), "trainings": trained},
        "loss_curve": to_json(verdict.loss_curve),
        "worst_tensor": to_json(verdict.numerics.worst_tensor),
        "worst_scale": to_json(verdict.numerics.worst_scale),
        **{"began": at, "seconds": round(time.monotonic() - began, 2)},
        **{"machine": this_machine().identity, "torch": version("torch"), "commit": commit()},
    }


def summary(rows: Sequence[Row]) -> str:
    """The table by network, of the guard as it is now, and what it comes to."""
    before = [row for row in rows if row["began"] < MORE_BASELINES]
    rows = [row for row in rows if row["began"] >= MORE_BASELINES]
    lines = ["| network | false alarms | 1% of a layer's gradient caught |", "|---|---|---|"]
    for name in NETWORKS:
        alarms, harmless = stopped(rows, HARMLESS, name)
        caught, faults = stopped(rows, FAULT, name)
        lines.append(f"| {name} | {alarms} of {harmless} | {caught} of {faults} |")
    if stopped(rows, HARMLESS)[1]:
        lines += ["", _alarm_words(rows, before), "", _look_words(rows), "", *_by_kernels(rows)]
    return "\n".join(lines)


def _alarm_words(rows: Sequence[Row], before: Sequence[Row]) -> str:
    since = [row for row in rows if row["began"] >= OF_SINGLE_STEPS]
    alarms, harmless = stopped(before, HARMLESS)
    caught, faults = stopped([*before, *rows], FAULT)
    return (
        f"Since the guard trains more baselines before it stops a plan: {_bounded(rows)}. Of these, since it "
        f"also holds single steps against them: {_bounded(since)}. Before all that there were {alarms} in "
        f"{harmless}. {caught} of {faults} faults were caught, before and since."
    )


def _bounded(rows: Sequence[Row]) -> str:
    alarms, harmless = stopped(rows, HARMLESS)
    if not harmless:
        return "none"
    bound = upper_bound(alarms, harmless)
    return f"{alarms} false alarms in {harmless} harmless runs, at most {bound:.1%} with 95% confidence"


def _look_words(rows: Sequence[Row]) -> str:
    """How often a harmless plan was looked at more closely."""
    harmless = [row for row in rows if row["plan"] == HARMLESS]
    closely = [row for row in harmless if row["trainings"] > FIRST_LOOK]
    more = [row for row in harmless if row["trainings"] > CLOSER_LOOK]
    cleared = sum(row["accuracy"] == "held" for row in more)
    alarms, _ = stopped(rows, HARMLESS)
    return (
        f"The first look was against {len(closely)} of the {len(harmless)}. A closer look cleared all of "
        f"these but {alarms + cleared}, and more baselines cleared {cleared} of the rest. Harmless runs by "
        "machine and kernels (those of one seed are alike on two kernels):"
    )


def _by_kernels(rows: Sequence[Row]) -> Iterator[str]:
    """How many runs there are of each machine, torch and set of instructions."""
    harmless = [row for row in rows if row["plan"] == HARMLESS]
    counted = Counter((row["machine"], row["torch"], row["isa"] or "all that it has") for row in harmless)
    for (machine, torch, isa), count in counted.items():
        yield f"- {machine}, torch {torch}, {isa}: {count}"


def stopped(rows: Sequence[Row], plan: str, name: str | None = None) -> tuple[int, int]:
    """How many runs of ``plan`` were not held, and of how many."""
    mine = [row for row in rows if row["plan"] == plan and name in (None, row["script"])]
    return sum(row["accuracy"] != "held" for row in mine), len(mine)


if __name__ == "__main__":
    main(sys.argv[1:])
