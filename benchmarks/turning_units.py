"""Why losses of two equal trainings part in jumps: baselines with noise of several sizes, and one without.

    python -m benchmarks.turning_units --seeds 3 --first-seed 40

A unit close to where it turns (ReLU, max pooling) turns under the least noise. How far the training jumps
then does not depend on how large the noise was; how often it happens does. For each network of
benchmarks/workloads/cnns.py and each seed, baselines with noise of float32's rounding and of several times it
train beside one without. Appends a line a network and seed to ``benchmarks/results/turning_units.jsonl``;
begun runs are gone on with.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.inside.distributed.forked import workers_forked
from tests.scripts.trial import trials_for

from hasten.bench.guard.checked_steps import Watched, started, watch
from hasten.bench.guard.departures import departure
from hasten.bench.guard.single_steps import ROUNDING
from hasten.inside.job import Perturbation
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan

from .false_wins import commit, rows_of
from .guard_cnns import NETWORKS, SCRIPT, STEPS
from .results import FOLDER, now

FILE = FOLDER / "turning_units.jsonl"
TRAININGS = {0.25: 2, 1.0: 9, 4.0: 8, 16.0: 3}  # how many, by how many times float32's rounding the noise is
HARMLESS = Plan({"channels_last": {}})


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=40)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no network after so many")
    asked = parser.parse_args(arguments)
    done = {(row["script"], row["seed"]) for row in rows_of(asked.file)}
    until = time.monotonic() + asked.seconds
    with workers_forked():
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            for name in NETWORKS:
                if (name, seed) in done or time.monotonic() > until:
                    continue
                row = one_run(name, seed)
                with asked.file.open("a") as appended:
                    appended.write(json.dumps(row) + "\n")
                print(f"{name}, {seed}: {row['seconds']} s", flush=True)


def one_run(name: str, seed: int) -> dict[str, Any]:
    began, at = time.monotonic(), now()
    noises = [(times, number) for times, count in TRAININGS.items() for number in range(count)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trials = stack.enter_context(trials_for(SCRIPT, folder, (name, "--seed", str(seed))))
        perturbed = [
            (BASELINE, Perturbation(times * ROUNDING["float32"], seed=1000 * int(4 * times) + one))
            for times, one in noises
        ]
        wanted = [(BASELINE, None), *perturbed, (HARMLESS, None)]
        reference, *others = started(stack, trials, wanted, seed)
        first, watched = watch(reference, others, STEPS, trials.aside, trials.limit)
    return {
        **{"script": name, "seed": seed, "rounding": "float32"},
        "trainings": [{"times": t, **seen(first, one)} for (t, _), one in zip(noises, watched, strict=False)],
        HARMLESS.label: seen(first, watched[-1]),
        **{"began": at, "seconds": round(time.monotonic() - began, 2)},
        **{"machine": this_machine().identity, "torch": version("torch"), "commit": commit()},
    }


def seen(reference: Watched, other: Watched) -> dict[str, Any]:
    """Losses' relative departures step by step, and by kind what has departed between two checks."""
    losses = [
        (after - before) / max(abs(before), abs(after), 1e-12)
        for a, b in zip(reference.trace, other.trace, strict=True)
        for before, after in zip(a.losses, b.losses, strict=True)
    ]
    since: dict[str, list[float]] = {}
    for check in other.checks:
        for kind, sums in check.since.items():
            since.setdefault(kind, []).append(float(f"{departure(sums).residual:.3g}"))
    return {"losses": [float(f"{one:.2e}") for one in losses], "since": since}


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """By network, how far losses depart under noise of each size."""
    times = sorted({each["times"] for row in rows for each in row["trainings"]})
    head = " | ".join(f"{one:g} times" for one in times)
    lines = [f"| network | {head} | channels_last |", "|---|" + "---|" * (len(times) + 1)]
    for row in rows:
        sizes = {
            one: [_size(each["losses"]) for each in row["trainings"] if each["times"] == one] for one in times
        }
        cells = [f"{min(found):.4%} to {max(found):.4%}" for found in sizes.values() if found]
        planned = _size(row[HARMLESS.label]["losses"])
        lines.append(f"| {row['script']}, seed {row['seed']} | {' | '.join(cells)} | {planned:.4%} |")
    return "\n".join(lines)


def _size(departures: Sequence[float]) -> float:
    """Root mean square."""
    return math.sqrt(fmean(one**2 for one in departures))


if __name__ == "__main__":
    main(sys.argv[1:])
