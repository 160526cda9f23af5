"""A shipped example tuned from several seeds: does it gain each time, and does the guard hold it each time?

    python -m benchmarks.seeds bn_cnn --seeds 5
    python -m benchmarks.seeds bn_cnn --read seed0.json seed1.json    # what ``hasten tune --json`` wrote

The seed is that of the script. Raw numbers go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from hasten.examples import path

from .examples import hasten
from .results import write_result

KEPT = ("outcome", "reason", "speedup", "plan", "guard", "warnings", "tune_seconds", "machine", "versions")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("example", choices=["fashion_cnn", "bn_cnn", "augmented_resnet"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="200", help="of each tune, in seconds")
    parser.add_argument("--read", nargs="+", type=Path, metavar="JSON", help="tunes that were made before")
    arguments = parser.parse_args()
    if arguments.read:
        tunes = [json.loads(file.read_text()) for file in arguments.read]
    else:
        tunes = [tuned(arguments.example, seed, arguments.budget) for seed in range(arguments.seeds)]
    rows = [{key: tune.get(key) for key in KEPT} for tune in tunes]
    for seed, row in enumerate(rows):
        print(f"seed {seed}: {words(row)}")
    summary = {f"seed {seed}": row["speedup"] for seed, row in enumerate(rows) if row["speedup"]}
    write_result(f"{arguments.example}-seeds", {"summary": summary, "rows": rows})
    lost = [seed for seed, row in enumerate(rows) if row["outcome"] != "gain"]
    if lost:
        raise SystemExit(f"no gain that holds accuracy from seeds {', '.join(map(str, lost))}")


def tuned(example: str, seed: int, budget: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        script = [str(path(example)), "--seed", str(seed)]
        hasten(folder, "tune", "--quiet", "--budget", budget, "--json", "tune.json", *script)
        found: dict[str, Any] = json.loads(Path(folder, "tune.json").read_text())
    return found


def words(row: dict[str, Any]) -> str:
    if row["speedup"] is None:
        return f"{row['outcome']}: {row['reason']}"
    speedup, guard = row["speedup"], row["guard"] or {}
    interval = f"{speedup['value']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"
    return f"{interval}, accuracy {guard.get('accuracy')}, tuned in {row['tune_seconds']:.0f} s"


if __name__ == "__main__":
    main()
