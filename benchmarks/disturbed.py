"""An example tuned on a quiet machine, and while a program disturbs it at random moments.

    python -m benchmarks.disturbed [EXAMPLE ...] [--budget SECONDS] [--tunes N]

Is as much found? The disturber keeps every core busy for a third of the time, in bursts of half a second to
six. Both plans are then compared with each other in fresh processes, without it: what one is worth less than
the other is what the noise cost. Nothing else may run on the machine meanwhile. Appends a line a tune to
``benchmarks/results/disturbed.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hasten.bench.observe import observe
from hasten.bench.script_bench import ScriptBench
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.cli.tune import NOT_CHECKED
from hasten.examples import path
from hasten.machine import this_machine
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from hasten.scripts.workspace import Script, find_script

from .disturber import SHARE, disturber
from .false_wins import commit, inside
from .results import FOLDER

FILE = FOLDER / "disturbed.jsonl"
EXAMPLES = ("fashion_cnn", "bn_cnn")
PAIRS = 10
WANTED = 0.95  # of the quiet plan's speed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", nargs="*", default=EXAMPLES)
    parser.add_argument("--budget", type=float, default=150.0)
    parser.add_argument("--tunes", type=int, default=3, help="with the disturber, for each example")
    arguments = parser.parse_args()
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    rows = []
    for example in arguments.examples:
        for row in of_example(example, arguments.budget, arguments.tunes):
            rows.append({**row, "share": SHARE, **where})
            with FILE.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    enough = sum(row["of_quiet"] is not None and row["of_quiet"] >= WANTED for row in rows)
    print(f"{enough} of {len(rows)} plans found with the disturber are worth {WANTED:.0%} of the quiet one")
    if not rows or enough < len(rows):
        raise SystemExit("not all of them are")


def of_example(example: str, budget: float, tunes: int) -> Iterator[dict[str, Any]]:
    """A row for each tune with the disturber."""
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        script = find_script(str(path(example)), [])
        quiet = tuned(script, budget, 0)
        if quiet["outcome"] != "gain":
            raise SystemExit(f"{example}: nothing was found on the quiet machine: {quiet['reason']}")
        for number in range(tunes):
            with disturber(number):
                noisy = tuned(script, budget, number)
            row = {"example": example, "number": number, "budget": budget, "quiet": quiet, "noisy": noisy}
            trial = compared(script, Plan.from_json(quiet["plan"]), Plan.from_json(noisy["plan"]))
            of_quiet = 1.0 if trial is None else 1 / trial.ratio.value if trial.ratio is not None else None
            print(
                f"{example} {number}: {noisy['outcome']} in {noisy['seconds']:.0f} s, "
                f"worth {of_quiet} of the quiet plan"
            )
            yield {**row, "of_quiet": of_quiet, "log_ratios": trial.log_ratios if trial is not None else ()}


def tuned(
    script: Script, budget: float | None, seed: int, options: Sequence[str] = (), fresh: bool = True
) -> dict[str, Any]:
    """What a tune found, and how long it took. It runs apart: what we start are others to it. ``options``:
    more of the command's. ``budget``: None leaves it to the tune; ``fresh``: nothing is reused from earlier
    tunes in this folder.
    """
    began = time.monotonic()
    words = [
        "tune",
        "--quiet",
        *(["--fresh"] if fresh else []),
        *(["--budget", str(budget)] if budget is not None else []),
        "--seed",
        str(seed),
        "--json",
        "tune.json",
        *options,
        script.label,
        *script.arguments,
    ]
    command = [sys.executable, "-m", "hasten.cli.main", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if done.returncode not in (0, NOT_CHECKED):
        return {"outcome": "failed", "reason": done.stderr, "plan": {}, "seconds": seconds}
    told = json.loads(Path("tune.json").read_text())
    kept = ("outcome", "reason", "plan", "speedup", "warnings", "tried", "refused", "guard")
    return {**{name: told.get(name) for name in kept}, "seconds": seconds}


def compared(script: Script, a: Plan, b: Plan, pairs: int = PAIRS) -> Trial | None:
    """The two plans in fresh processes; None if they are the same."""
    if a == b:
        return None
    output = Path.cwd() / "compared"
    stage = Stage(script.argv, this_machine(), dict(os.environ), script.folders)
    with Trials(stage, output) as trials:
        _, rhythm = observe(trials)
        with ScriptBench(trials, rhythm) as bench:
            return bench.pairs.compare(a, b, pairs)


if __name__ == "__main__":
    main()
