"""What becomes of scripts that compute something from their batches, with two ranks.

    python -m benchmarks.rank_outcomes run [NAME ...]     train them, or these anew; keep what became of each
    python -m benchmarks.rank_outcomes write              write the table into docs/distributed.md

No cell is typed. The scripts are in tests/inside/distributed/outcomes.py.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.inside.distributed.became import Became, became
from tests.inside.distributed.outcomes import EQUAL, SHAPES

from .results import between

RESULTS = Path(__file__).parent / "results" / "rank-outcomes.json"
PAGE = Path(__file__).parents[1] / "docs" / "distributed.md"
_BEGIN, _END = "<!-- outcomes: begin -->", "<!-- outcomes: end -->"
_REASON_CHARACTERS = 160


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "write"))
    parser.add_argument("names", nargs="*", choices=[[], *SHAPES])
    arguments = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if arguments.what == "run":
        for name in arguments.names or SHAPES:
            kept[name] = asdict(_run(name))
            print(f"{name}: {kept[name]['what']} {kept[name]['reason'][:_REASON_CHARACTERS]}", flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return
    found = {name: Became(**kept[name]) for name in SHAPES if name in kept}
    page = between(PAGE.read_text(encoding="utf-8"), _BEGIN, _END, table(found))
    PAGE.write_text(page, encoding="utf-8")


def _run(name: str) -> Became:
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            return became(SHAPES[name], Path(folder), dict(os.environ))
        finally:
            os.chdir(before)


def table(found: dict[str, Became]) -> str:
    """As Markdown, in the order of the scripts."""
    lines = ["| a script with | two ranks |", "|---|---|"]
    for name, one in found.items():
        reason = one.reason.split(": it is computed")[0].split(". What a rank")[0]
        if len(reason) > _REASON_CHARACTERS:
            reason = reason[:_REASON_CHARACTERS].rsplit(" ", 1)[0] + " ..."
        cell = "train what one process trains, to 1e-9" if one.what == EQUAL else f"{one.what}: {reason}"
        lines.append(f"| {name} | {cell.replace('|', '/')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
