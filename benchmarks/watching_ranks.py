"""What watching costs that ranks stay one model, and one process's: two ranks, watched and not.

    python -m benchmarks.watching_ranks [--steps 400] [--rounds 8]

Both are the same processes: watching is switched off and on again from one block of steps to the next, in the
order A B B A, at the same step in both ranks. A step's time watched is divided by that not watched, in each
round; printed are their median and mean. Steps done once more in a fork are rare: they show in the mean.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import os, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(4096, 1, 28, 28); y = torch.randint(0, 10, (4096,))
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
import sys
watch = sys.modules.get("hasten.inside.distributed.watch")
checks = sys.modules.get("hasten.inside.distributed.spot_checks")
real = (watch.Watch.told, watch.Watch.heard, checks.SpotChecks._is_time) if watch else None
STEPS, ROUNDS = %d, %d
def switch(on):
    if watch:
        watch.Watch.told = real[0] if on else lambda self: ([0] * len(watch.KINDS), [0.0, 0.0])
        watch.Watch.heard = real[1] if on else lambda self, *more: ""
        checks.SpotChecks._is_time = real[2] if on else lambda self: False
def block(on):
    switch(on)
    done, began = 0, 0.0
    while True:
        for a, b in loader:
            if done == 10: began = time.perf_counter()
            if done == STEPS: return (time.perf_counter() - began) / (STEPS - 10)
            optimizer.zero_grad(); nn.functional.cross_entropy(model(a), b).backward(); optimizer.step()
            done += 1
for _ in range(ROUNDS):
    times = [(on, block(on)) for on in (True, False, False, True)]
    watched, plain = (sum(t for on, t in times if on is kind) / 2 for kind in (True, False))
    print("step", f"{watched / plain:.5f} {plain * 1e3:.3f} ms", file=sys.stderr, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(SCRIPT % (arguments.steps, arguments.rounds))
        done = subprocess.run(
            [sys.executable, "-m", "hasten.cli.main", "run", "--nproc-per-node", "2", str(path)],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    ratios = [float(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("step ")]
    middle, mean = statistics.median(ratios), statistics.mean(ratios)
    print(f"a step watched takes {middle:.4f} (mean {mean:.4f}) of one that is not ({sorted(ratios)})")


if __name__ == "__main__":
    main()
