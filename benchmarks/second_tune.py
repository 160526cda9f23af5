"""What does a second tune of the same script cost that starts from what the first one measured?

    python -m benchmarks.second_tune [SCRIPT ...] [--pairs N] [--budget SECONDS]
    python -m benchmarks.second_tune --summary                     # what was measured so far

In a folder of its own each script is tuned, and tuned again with the same arguments: the second tune reads
the journal of the first, compares what that left open, as far as half the time allows, and confirms in fresh
processes as always. Rows are
appended to ``benchmarks/results/second_tune.jsonl``. Nothing else may run on the machine meanwhile. It fails
where a second tune took more than half the time, or where one of the two failed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from hasten.examples import path
from hasten.machine import this_machine
from hasten.scripts.workspace import find_script

from .disturbed import tuned
from .false_wins import commit, inside, rows_of
from .results import FOLDER, now
from .search import SCRIPTS, Searching

FILE = FOLDER / "second_tune.jsonl"
CASES = {**SCRIPTS, "char_gpt": Searching(path("char_gpt"))}
BAR = 0.5  # of the first tune's time
NOT_MEASURED = "Not measured yet: `python -m benchmarks.second_tune` does."

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", default=tuple(CASES), metavar="SCRIPT")
    parser.add_argument("--pairs", type=int, default=1, help="of tunes, of each script")
    parser.add_argument(
        "--budget", type=float, metavar="SECONDS", help="of each tune (default: what a tune takes unasked)"
    )
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    if unknown := set(arguments.scripts) - set(CASES):
        parser.error(f"there is no script {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    for _ in range(0 if arguments.summary else arguments.pairs):
        for name in arguments.scripts:
            keep(arguments.file, pair(name, arguments.budget))
    rows = rows_of(arguments.file)
    print(summary(rows))
    if missed := [row["script"] for row in rows if not is_held(row)]:
        raise SystemExit(f"more than {BAR:.0%} of the first tune's time, or failed: {', '.join(missed)}")


def pair(name: str, budget: float | None) -> Row:
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        found = find_script(str(CASES[name].script), list(CASES[name].arguments))
        tunes = [told(tuned(found, budget, seed=0, fresh=is_first)) for is_first in (True, False)]
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    return {"script": name, "budget": budget, "tunes": tunes, **where, "ended": now()}


def told(tune: Row) -> Row:
    return {name: tune.get(name) for name in ("outcome", "reason", "plan", "speedup", "seconds")}


def keep(file: Path, row: Row) -> None:
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    print(_line(row), flush=True)


def share(row: Row) -> float:
    """Of the first tune's time, that the second took."""
    first, second = row["tunes"]
    return float(second["seconds"] / first["seconds"])


def is_held(row: Row) -> bool:
    return share(row) <= BAR and all(tune["outcome"] != "failed" for tune in row["tunes"])


def summary(rows: Sequence[Row]) -> str:
    """A table in Markdown, and what it comes to."""
    if not rows:
        return NOT_MEASURED
    held = sum(map(is_held, rows))
    made = sorted({f"{row['machine']}, torch {row['torch']}, hasten {row['commit']}" for row in rows})
    return "\n".join(
        [
            "| script | first tune | second tune | share | found first | found then |",
            "|---|---|---|---|---|---|",
            *map(_line, rows),
            "",
            f"{held} of {len(rows)} second tunes took at most {BAR:.0%} of the first one's time; the median "
            f"is {median(map(share, rows)):.0%}. Measured on {'; '.join(made)}.",
        ]
    )


def _line(row: Row) -> str:
    first, second = row["tunes"]
    cells = [row["script"], f"{first['seconds']:.0f} s", f"{second['seconds']:.0f} s", f"{share(row):.0%}"]
    return f"| {' | '.join([*cells, _found(first), _found(second)])} |"


def _found(tune: Row) -> str:
    if tune["outcome"] != "gain":
        return str(tune["outcome"])
    speedup = tune["speedup"]
    return f"{speedup['value']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"


if __name__ == "__main__":
    main()
