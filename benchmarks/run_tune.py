"""What ``hasten run --tune`` costs where nothing is faster, and gives where something is.

    python -m benchmarks.run_tune [--steps 10000] [--rounds 2] [NAME ...]

``nothing``: a training that exact techniques hardly make faster; ``gain``: one whose update goes tensor by
tensor. Each is trained plainly and with ``--tune``, in the order A B B A; the time is that of the training's
own steps, trying included, as the script takes it. Appends a line a pair to
``benchmarks/results/run_tune.jsonl`` and prints the ratios: a tuned run's time over that of its plain one.
Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from .false_wins import rows_of
from .results import FOLDER
from .runs import hasten, keeping

FILE = FOLDER / "run_tune.jsonl"
LONGEST = 900.0  # seconds of a training
SCRIPT = """
import sys, time
import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(128, 128) for _ in range({layers})]
model = nn.Sequential(*layers)
optimizer = torch.optim.{optimizer}
inputs = torch.randn(512, 128)
began, worked = time.perf_counter(), time.process_time()
for step in range(int(sys.argv[1])):
    batch = inputs[torch.randint(0, 512, (64,))]
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"seconds {{time.perf_counter() - began}} processor {{time.process_time() - worked}}")
"""
CASES = {
    "nothing": {"layers": 4, "optimizer": "SGD(model.parameters(), lr=1e-3)"},
    "gain": {"layers": 12, "optimizer": "Adam(model.parameters(), lr=1e-4, foreach=False)"},
}
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2, help="pairs")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    unknown = set(arguments.names) - CASES.keys()
    if unknown:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}")
    keep = keeping(arguments.file)
    for name in arguments.names or CASES:
        for number in range(arguments.rounds):
            row = pair(name, arguments.steps, plain_first=number % 2 == 0)
            keep(row)
            print(f"{name}: {row['tuned_seconds'] / row['plain_seconds']:.3f}; {row['said']}", flush=True)
    print(summary(rows_of(arguments.file)))


def pair(name: str, steps: int, plain_first: bool) -> Row:
    """One training of each kind, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT.format(**CASES[name]))
        plain = [sys.executable, "train.py", str(steps)]
        tuned = list(hasten("run", "--tune", "train.py", str(steps)))
        done = {}
        for kind, words in (("plain", plain), ("tuned", tuned))[:: 1 if plain_first else -1]:
            done[kind] = trained(words, folder)
    return {
        "case": name,
        "steps": steps,
        "plain_first": plain_first,
        "plain_seconds": done["plain"][0],
        "tuned_seconds": done["tuned"][0],
        "plain_processor": done["plain"][1],
        "tuned_processor": done["tuned"][1],
        "said": done["tuned"][2],
    }


def trained(words: Sequence[str], folder: str) -> tuple[float, float, str]:
    """Seconds of its steps, by the clock and of the processor, and what was said besides."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=LONGEST, env=one_thread(), check=False
    )
    found = re.search(r"seconds (\S+) processor (\S+)", done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    return float(found[1]), float(found[2]), done.stderr.strip()


def one_thread() -> dict[str, str]:
    """Layers are so small that threads would only wait for each other."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def summary(rows: Sequence[Row]) -> str:
    """Of all that was measured so far."""
    lines = []
    for name in CASES:
        found = [row for row in rows if row["case"] == name]
        for kind in ("seconds", "processor"):
            ratios = [row[f"tuned_{kind}"] / row[f"plain_{kind}"] for row in found]
            if ratios:
                each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
                lines.append(f"{name}, {kind}: a tuned run takes {fmean(ratios):.3f} of a plain one ({each})")
    return "\n".join(lines) or "None have been measured yet: `python -m benchmarks.run_tune` does."


if __name__ == "__main__":
    main()
