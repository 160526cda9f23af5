"""Does a plan still gain in new processes, an hour after it was found?

    python -m benchmarks.deployed_again tune [SCRIPT ...] [--budget SECONDS]    # keeps the plans that gain
    python -m benchmarks.deployed_again again [--hours H] [--pairs N]           # those that are so old by now
    python -m benchmarks.deployed_again                                         # what was measured so far

Plain training and the plan are compared in pairs of fresh processes, by their steps: what a plan does outside
of steps is left out. A plan loses if it is slower than plain training in the mean; it also says what is left
of the claim. TUNA (arXiv 2503.01801) found up to 63% of the settings that tuners chose to be unstable
when they are deployed again. Rows are appended to ``benchmarks/results/deployed_again.jsonl``. Nothing else
may run on the machine meanwhile. The last two fail where more than 5% lose.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hasten.bench.base import for_steps
from hasten.examples import path
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan
from hasten.scripts.workspace import find_script

from .disturbed import compared, tuned
from .false_wins import commit, inside, rows_of
from .results import FOLDER, now

FILE = FOLDER / "deployed_again.jsonl"
WORKLOADS = Path(__file__).parent / "workloads"
BAR = 0.05  # of the plans may lose
HOURS, PAIRS = 1.0, 5
NOT_MEASURED = "Not measured yet: `python -m benchmarks.deployed_again tune` does, and `again` an hour later."

Row = dict[str, Any]
Case = tuple[Path, tuple[str, ...]]


def _of_workload(file: str, *names: str) -> dict[str, Case]:
    """By the name that the workload takes as its argument, or its own."""
    script = WORKLOADS / f"{file}.py"
    return {name: (script, (name,)) for name in names} or {file: (script, ())}


CASES: dict[str, Case] = {
    **{name: (path(name), ()) for name in ("fashion_cnn", "bn_cnn", "char_gpt", "augmented_resnet")},
    **_of_workload("cnns", "plain", "batch norm and dropout", "group norm", "residual", "separable"),
    **_of_workload("kinds", "LSTM", "transformer with dropout", "GAN of convolutions"),
    **_of_workload("kinds", "perceptron with dropout", "variational autoencoder"),
    **_of_workload("convolutions"),
    **_of_workload("flipped_pictures"),
    **_of_workload("large_pictures"),
    **_of_workload("many_parameters"),
    **_of_workload("padded_text"),
    **_of_workload("products"),
    **_of_workload("resized_pictures"),
    "small_layers": (WORKLOADS / "small_layers.py", ("64",)),
    **_of_workload("transformer"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("tune", "again", "summary"), default="summary")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT")
    parser.add_argument(
        "--budget", type=float, metavar="SECONDS", help="of each tune (default: what a tune takes unasked)"
    )
    parser.add_argument("--hours", type=float, default=HOURS, help="that a plan must be old at least")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of fresh processes, of each plan")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    names = arguments.scripts or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"there is no script {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if arguments.what == "tune":
        for name in names:
            keep(arguments.file, tune(name, arguments.budget))
        return
    if arguments.what == "again":
        for row in due(rows_of(arguments.file), arguments.hours, now()):
            if row["script"] in names:
                keep(arguments.file, again(row, arguments.pairs))
    rows = rows_of(arguments.file)
    print(summary(rows))
    if not is_held(rows):
        raise SystemExit(f"more than {BAR:.0%} of the plans lose, or none was deployed again")


# ---- to measure
def tune(name: str, budget: float | None) -> Row:
    script, arguments = CASES[name]
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        found = tuned(find_script(str(script), list(arguments)), budget, seed=0)
    told = {key: found.get(key) for key in ("outcome", "reason", "plan", "speedup", "seconds")}
    return {"kind": "tuned", "script": name, "budget": budget, **told, **_where()}


def again(row: Row, pairs: int) -> Row:
    """The plan of a row, deployed once more."""
    name, plan = row["script"], for_steps(Plan.from_json(row["plan"]))
    script, arguments = CASES[name]
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        trial = compared(find_script(str(script), list(arguments)), BASELINE, plan, pairs)
    assert trial is not None
    told = {"log_ratios": trial.log_ratios, "failure": trial.failure}
    return {
        "kind": "again",
        "script": name,
        "tuned": row["ended"],
        "plan": plan.to_json(),
        **told,
        **_where(),
    }


def _where() -> Row:
    told = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    return {**told, "load_average": os.getloadavg()[0], "ended": now()}


def keep(file: Path, row: Row) -> None:
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    found = row.get("reason") or row.get("failure") or f"{_times(row):.2f}x"
    print(f"{row['script']}, {row['kind']}: {found}", flush=True)


def due(rows: Sequence[Row], hours: float, moment: str) -> list[Row]:
    """Tunes with a gain in steps that are so old, and not deployed again yet."""
    done = {(row["script"], row["tuned"]) for row in rows if row["kind"] == "again"}
    return [
        row
        for row in rows
        if row["kind"] == "tuned" and row["outcome"] == "gain" and for_steps(Plan.from_json(row["plan"]))
        if (row["script"], row["ended"]) not in done
        if _hours_between(row["ended"], moment) >= hours
    ]


# ---- what it says
def loses(row: Row) -> bool:
    """A plan that fails when it is deployed again is lost, too."""
    return bool(row["failure"]) or _times(row) <= 1.0


def is_held(rows: Sequence[Row]) -> bool:
    deployed = [row for row in rows if row["kind"] == "again"]
    return bool(deployed) and sum(map(loses, deployed)) <= BAR * len(deployed)


def summary(rows: Sequence[Row]) -> str:
    """A table in Markdown, and what it comes to."""
    tunes = {(row["script"], row["ended"]): row for row in rows if row["kind"] == "tuned"}
    deployed = [(tunes[row["script"], row["tuned"]], row) for row in rows if row["kind"] == "again"]
    if not deployed:
        return NOT_MEASURED
    lost = sum(loses(row) for _, row in deployed)
    left = [_times(row) / tune["speedup"]["value"] for tune, row in deployed if not row["failure"]]
    hours = [_hours_between(row["tuned"], row["ended"]) for _, row in deployed]
    made = sorted({f"{row['machine']}, torch {row['torch']}, hasten {row['commit']}" for _, row in deployed})
    gains = sum(row["outcome"] == "gain" for row in tunes.values())
    return "\n".join(
        [
            "| script | claimed | deployed again | after |",
            "|---|---|---|---|",
            *(_line(tune, row) for tune, row in deployed),
            "",
            f"{gains} of {len(tunes)} tunes found a gain. Deployed again after {min(hours):.1f} to "
            f"{max(hours):.1f} hours, {lost} of {len(deployed)} plans lose (at most {BAR:.0%} may); of what "
            f"was claimed {median(left):.0%} is left in the median, {min(left):.0%} at least. "
            f"Measured on {'; '.join(made)}.",
        ]
    )


def _line(tune: Row, row: Row) -> str:
    speedup = tune["speedup"]
    claimed = f"{speedup['value']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"
    found = row["failure"] or f"{_times(row):.2f}x, {len(row['log_ratios'])} pairs"
    return f"| {row['script']} | {claimed} | {found} | {_hours_between(row['tuned'], row['ended']):.1f} h |"


def _times(row: Row) -> float:
    """Times faster than plain training, by the mean of the logarithms."""
    return math.exp(-fmean(row["log_ratios"]))


def _hours_between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() / 3600


if __name__ == "__main__":
    main()
