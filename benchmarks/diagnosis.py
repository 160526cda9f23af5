"""Does ``hasten profile`` name what takes the time of a training, and say rightly how much it takes?

    python -m benchmarks.diagnosis [NAME ...] [--rounds N]

Trainings with a planted fault each (``benchmarks.plants``) are profiled as a user does it. In the same
minute the script is run without the plant and with it, in the order A B B A: the true share is what an epoch
with the plant takes longer. The first cause that the profile tells must be the planted one, and its share,
which bounds what a cure can give, may be no less than the true one. Appends a line a script to
``benchmarks/results/diagnosis.jsonl`` and prints a table; fails where less than 95% are right. Nothing else
may run on the machine meanwhile. ``benchmarks.measuring`` puts the table on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from .diagnosis_summary import right_enough, summary
from .false_wins import rows_of
from .plants import PLANTS
from .plants.plant import Plant
from .results import FOLDER
from .runs import hasten, keeping

FILE = FOLDER / "diagnosis.jsonl"
SECONDS = 3.0  # of whole epochs that a run is timed for, at least
EPOCHS = 3  # at least, the first one not counted
SLOWEST = 120.0  # seconds that anything may take

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(plant.name for plant in PLANTS))
    parser.add_argument("--rounds", type=int, default=1, help="of runs with and without the plant")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a run is timed for")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    plants = {plant.name: plant for plant in PLANTS}
    unknown = set(arguments.names) - plants.keys()
    if unknown:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}")
    keep = keeping(arguments.file)
    for name in arguments.names or plants:
        row = diagnosed(plants[name], arguments.rounds, arguments.seconds)
        keep(row)
        print(f"{name}: {said(row)}", flush=True)
    rows = rows_of(arguments.file)
    print(summary(rows))
    if not right_enough(rows):
        raise SystemExit("less than 95% of the first causes are right")


def diagnosed(plant: Plant, rounds: int, seconds: float) -> Row:
    """What the profile says of the script with the plant, and what the clock says of both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scripts = {"without": folder / "clean" / "train.py", "with": folder / "train.py"}
        scripts["without"].parent.mkdir()
        scripts["without"].write_text(plant.script_without())
        scripts["with"].write_text(plant.script_with_it())
        times: dict[str, list[list[float]]] = {"without": [], "with": []}
        profiled: Row = {}
        for number in range(rounds):
            order = ("without", "with") if number % 2 == 0 else ("with", "without")
            times[order[0]].append(epochs_of(scripts[order[0]], seconds))
            profiled = profiled or profile(scripts["with"])
            times[order[1]].append(epochs_of(scripts[order[1]], seconds))
    return {
        "case": plant.name,
        "right": list(plant.causes),
        "epoch_seconds": times,
        "true_share": true_share(times),
        **profiled,
    }


def true_share(times: dict[str, list[list[float]]]) -> float:
    """Of an epoch, what the plant takes."""
    usual = {arm: median(one for run in runs for one in run) for arm, runs in times.items()}
    return 1 - usual["without"] / usual["with"]


def profile(script: Path) -> Row:
    """The causes in the order in which they are told, and what of the run they are shares of."""
    began = time.perf_counter()
    words = hasten("profile", "--json", "profile.json", script.name)
    done = subprocess.run(
        words,
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=SLOWEST,
        env=unbuffered(),
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"hasten profile failed:\n{done.stderr}\n{script.read_text()}")
    told = json.loads((script.parent / "profile.json").read_text())
    return {
        "causes": told["causes"],
        "phases": told["phases"],
        "account": told["run"]["breakdown"],
        "profile_seconds": time.perf_counter() - began,
    }


def epochs_of(script: Path, seconds: float) -> list[float]:
    """Seconds of each epoch but the first, by the lines that the script prints at their ends."""
    ends: list[float] = []
    with subprocess.Popen(
        [sys.executable, script.name],
        cwd=script.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=unbuffered(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("epoch "):
                ends.append(time.perf_counter())
                if len(ends) > EPOCHS and ends[-1] - ends[0] > seconds:
                    break
        with suppress(OSError):  # it may have ended
            os.killpg(process.pid, signal.SIGKILL)  # a loader's workers would live on for seconds
    if len(ends) < EPOCHS:
        raise SystemExit(f"{script} ended after {len(ends)} epochs:\n{script.read_text()}")
    return [later - earlier for earlier, later in pairwise(ends)]


def unbuffered() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def said(row: Row) -> str:
    causes: Sequence[Row] = row["causes"]
    told = ", ".join(f"{cause['name']} {cause['share']:.0%}" for cause in causes) or "nothing"
    return f"truly {row['true_share']:.0%}; told {told}; in {row['profile_seconds']:.0f} s"


if __name__ == "__main__":
    main()
