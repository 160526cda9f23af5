"""Scripts that lose their time to one thing each: does a tune find the technique that is meant for it?

    python -m benchmarks.cures [SCRIPT ...] [--budget SECONDS]

And does it claim none of those that are meant for the others? What speeds up steps (threads, allocator,
precision) may be in any plan. Appends a line a tune to ``benchmarks/results/cures.jsonl``, with all that was
tried. Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hasten.machine import this_machine
from hasten.scripts.workspace import find_script

from .disturbed import tuned
from .false_wins import commit, inside
from .results import FOLDER, now

FILE = FOLDER / "cures.jsonl"
WORKLOADS = Path(__file__).parent / "workloads"
CURES = {
    "long_evaluation": {"evaluation_in_ram"},
    "short_epochs": {"persistent_workers", "loader_workers"},  # both let workers stay
    "large_saves": {"async_save"},
    "many_groups": {"merge_groups"},
    "many_objects": {"gc_control"},
    "padded_text": {"pad_trim"},
}
"""What each script is slow for, by the techniques that are meant for it: one of them is enough."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", default=tuple(CURES))
    parser.add_argument("--budget", type=float, default=150.0)
    arguments = parser.parse_args()
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    wrong = []
    for name in arguments.scripts:
        row = tune(name, arguments.budget)
        said = judged(name, row)
        with FILE.open("a") as file:
            file.write(json.dumps({"script": name, "ended": now(), "judged": said, **row, **where}) + "\n")
        plan = ", ".join(row["plan"]) or "nothing"
        print(f"{name}: {said}; found {plan}, {of(row)}, in {row['seconds']:.0f} s", flush=True)
        wrong += [name] if said != "cured" else []
    if wrong:
        raise SystemExit(f"not cured, or by the wrong technique: {', '.join(wrong)}")


def tune(name: str, budget: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        return tuned(find_script(str(WORKLOADS / f"{name}.py"), []), budget, 0)


def judged(name: str, row: dict[str, Any]) -> str:
    others = set().union(*CURES.values()) - CURES[name]
    found: Sequence[str] = sorted(others & set(row["plan"]))
    if found:
        return f"claims {', '.join(found)}"
    return "cured" if CURES[name] & set(row["plan"]) else "not cured"


def of(row: dict[str, Any]) -> str:
    speedup = row.get("speedup")
    if not speedup:
        return str(row["reason"])
    return f"{speedup['value']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"


if __name__ == "__main__":
    main()
