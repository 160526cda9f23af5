"""How often are processes of a real plan slow, which trained the same a moment ago?

    python -m benchmarks.slow_processes fashion_cnn --processes 100

Starts fresh processes of the plain training and of a plan side by side, in an order that alternates, and
times one block of each, as hasten does where it looks for slow processes. The plan is what ``--use`` names,
or what a tune finds; where the file has rows of the example, theirs. Appends a line a process to
``benchmarks/results/slow_processes.jsonl`` until there are so many of each, or ``--seconds`` are over; so it
can be stopped and gone on with. Nothing else may run on the machine meanwhile. ``benchmarks.measuring`` puts
it on the page.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median, pstdev
from typing import Any

from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.observe import observe
from hasten.examples import path
from hasten.machine import this_machine
from hasten.plans.files import SavedPlan, changed
from hasten.records.plan import BASELINE, Plan
from hasten.scripts.workspace import find_script

from .disturbed import tuned
from .false_wins import commit, inside, rows_of
from .guard_rows import upper_bound
from .results import FOLDER, now
from .staging import staged

FILE = FOLDER / "slow_processes.jsonl"
SLOW = 1.2  # times the usual process
NEAREST = 20  # processes of the same plan, in the order of time: a machine drifts over hours
BUDGET = 300.0  # seconds, of the tune


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("example", nargs="?", default="fashion_cnn")
    parser.add_argument("--processes", type=int, default=100, help="of each plan, that the file shall have")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no more are started")
    parser.add_argument("--use", action="append", default=[], metavar="NAME[:KEY=VALUE,...]")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(exist_ok=True)
    ends = time.monotonic() + arguments.seconds
    plan = plan_for(arguments.example, arguments.use, rows_of(arguments.file))
    done = len(rows_under(rows_of(arguments.file), arguments.example, plan, plan))
    if done < arguments.processes and time.monotonic() < ends:
        for row in measured(arguments.example, plan, done, arguments.processes, ends):
            with arguments.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(summary(rows_of(arguments.file)))


def plan_for(example: str, use: Sequence[str], rows: Sequence[dict[str, Any]]) -> Plan:
    """What was named; else that of the last row of the example; else what a tune finds."""
    if use:
        return changed(SavedPlan(BASELINE), use, ()).plan
    before = [row["plan"] for row in rows if row["example"] == example]
    if before:
        return Plan.from_json(before[-1])
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        found = tuned(find_script(str(path(example)), []), BUDGET, 0)
    if not found["plan"]:
        raise SystemExit(f"no plan was found for {example}: {found['reason']}; name one by --use")
    return Plan.from_json(found["plan"])


def measured(example: str, plan: Plan, done: int, wanted: int, ends: float) -> Iterator[dict[str, Any]]:
    """A row for each process, two at a time, until ``wanted`` of each, or the time ``ends``."""
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    with staged(path(example)) as trials:
        _, rhythm = observe(trials)
        bench = PairsBench(trials, rhythm)
        for number in range(done, wanted):
            if time.monotonic() >= ends:
                return
            order = (BASELINE, plan) if number % 2 == 0 else (plan, BASELINE)
            began = now()
            seconds = bench.singles(order)
            for trained, one in zip(order, seconds, strict=True):
                yield {
                    "example": example,
                    "plan": plan.to_json(),
                    "trained": trained.to_json(),
                    "number": number,
                    "began": began,
                    "sample_seconds": one,
                    **where,
                }
            print(f"{number}: " + ", ".join(f"{1e6 * one:.1f} us a sample" for one in seconds), flush=True)


# ---- what the rows say
def rows_under(rows: Sequence[dict[str, Any]], example: str, plan: Plan, trained: Plan) -> list[float]:
    """Seconds a sample of the processes that trained under ``trained``, together with those of ``plan``."""
    return [
        row["sample_seconds"]
        for row in rows
        if row["example"] == example
        and Plan.from_json(row["plan"]) == plan
        and Plan.from_json(row["trained"]) == trained
    ]


def against_the_nearest(seconds: Sequence[float]) -> list[float]:
    """Each process's time over the median of the NEAREST in the order of time, itself among them."""
    found = []
    for place, one in enumerate(seconds):
        first = max(0, min(place - NEAREST // 2, len(seconds) - NEAREST))
        found.append(one / median(seconds[first : first + NEAREST]))
    return found


def share_words(slow: int, count: int) -> str:
    """With the 95% interval of Clopper and Pearson, Biometrika 26 (1934)."""
    low, high = 1 - upper_bound(count - slow, count, 0.975), upper_bound(slow, count, 0.975)
    return f"{slow} of {count} ({low:.1%} to {high:.1%})"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A table in Markdown."""
    if not rows:
        return "None have been measured yet: `python -m benchmarks.slow_processes` does."
    lines = [
        f"| example | processes under | slower than {SLOW} times their median | than {SLOW} times the median "
        f"of the {NEAREST} nearest in time | slowest, times the median | sd of the logarithm |",
        "|---|---|---|---|---|---|",
    ]
    seen: dict[tuple[str, str], None] = {}
    for row in rows:
        seen.setdefault((row["example"], json.dumps(row["plan"])))
    for example, text in seen:
        plan = Plan.from_json(json.loads(text))
        for trained in (BASELINE, plan):
            seconds = rows_under(rows, example, plan, trained)
            usual = [one / median(seconds) for one in seconds]
            shares = [
                share_words(sum(times > SLOW for times in found), len(found))
                for found in (usual, against_the_nearest(seconds))
            ]
            lines.append(
                f"| {example} | {trained.label} | {shares[0]} | {shares[1]} | {max(usual):.2f} | "
                f"{pstdev(map(math.log, usual)):.1%} |"
            )
    made = sorted({f"{row['machine']}, torch {row['torch']}" for row in rows})
    return "\n".join([*lines, "", f"Measured on {'; '.join(made)}."])


if __name__ == "__main__":
    main()
