"""What watching costs that ranks stay one model, and one process's: two ranks, watched and not.

    python -m benchmarks.watching_ranks [--steps 40] [--rounds 100]

Both are the same processes: watching is switched off and on again from one block of steps to the next, in the
order A B B A, at the same step in both ranks. A step's time watched is divided by that not watched, in each
round. Blocks are short, so that what else happens on the machine falls on both; there are many of them, and
the interval is over rounds. Beside the time on the clock each rank's processor time is compared so, which
others on the machine change less; what the watching functions take is timed, too. Steps done once more in a
fork are rare: of these the processor time is counted, of all ranks and forks. A rehearsal comes first (1,200
steps in all).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from hasten.bench.statistics import interval
from hasten.machine import this_machine

from .results import FOLDER

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
inside = [0.0, 0]
def timed(call):
    def timing(*arguments):
        began = time.perf_counter()
        try: return call(*arguments)
        finally: inside[0] += time.perf_counter() - began
    return timing
real = (timed(watch.Watch.told), timed(watch.Watch.heard), checks.SpotChecks._is_time) if watch else None
STEPS, ROUNDS, SKIPPED = %d, %d, 4
def switch(on):
    if watch:
        watch.Watch.told = real[0] if on else lambda self: ([0] * len(watch.KINDS), [0.0, 0.0])
        watch.Watch.heard = real[1] if on else lambda self, *more: ""
        checks.SpotChecks._is_time = real[2] if on else lambda self: False
def block(on):
    switch(on)
    done, began, spent = 0, 0.0, 0.0
    while True:
        for a, b in loader:
            if done == SKIPPED: began, spent = time.perf_counter(), time.process_time()
            if done == STEPS: return time.perf_counter() - began, time.process_time() - spent
            optimizer.zero_grad(); nn.functional.cross_entropy(model(a), b).backward(); optimizer.step()
            done += 1; inside[1] += on
for _ in range(ROUNDS):
    times = [(on, *block(on)) for on in (True, False, False, True)]
    for place, what in ((1, "step"), (2, "processor")):
        watched, plain = (sum(t[place] for t in times if t[0] is kind) / 2 for kind in (True, False))
        per_step = f"{1e3 * plain / (STEPS - SKIPPED):.3f} ms"
        print(what, f"{watched / plain:.5f}", per_step, file=sys.stderr, flush=True)
print("inside", f"{inside[0] / max(1, inside[1]):.9f}", file=sys.stderr, flush=True)
spent = [one._spent for one in __import__("gc").get_objects() if type(one).__name__ == "SpotChecks"]
took = os.times()
if watch: print("forks", sum(spent), took.user + took.system, file=sys.stderr, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(SCRIPT % (arguments.steps, arguments.rounds))
        done = subprocess.run(
            [sys.executable, "-m", "hasten.cli.main", "run", "--nproc-per-node", "2", str(path)],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    lines = [line.split() for line in done.stderr.splitlines() if line.strip()]
    ratios = {
        what: [float(words[1]) for words in lines if words[0] == what] for what in ("step", "processor")
    }
    inside = [float(words[1]) for words in lines if words[0] == "inside"]
    plain = statistics.median(float(words[2]) / 1e3 for words in lines if words[0] == "step")
    print(
        f"all that a rank does to watch takes {1e6 * max(inside):.0f} us a step, "
        f"{max(inside) / plain:.2%} of {1e3 * plain:.1f} ms"
    )
    forks = [(float(words[1]), float(words[2])) for words in lines if words[0] == "forks"]
    for what, several in ratios.items():
        found = interval([math.log(ratio) for ratio in several], "round")
        assert found is not None
        print(
            f"{'a step' if what == 'step' else 'its processor time'}, watched, is {found.value:.4f} "
            f"({found.low:.4f} to {found.high:.4f}, {len(several)} rounds; median "
            f"{statistics.median(several):.4f}) times that of one that is not"
        )
    spent, taken = forks[0][0], sum(took for _, took in forks) * 2 / len(forks)
    print(f"steps done once more took {spent:.2f} s of processor time, {spent / taken:.2%} of {taken:.1f} s")
    path = FOLDER / f"{datetime.now(timezone.utc):%Y-%m-%d}-watching_ranks.json"
    machine = this_machine().identity
    raw = {
        "machine": machine,
        "ratios": ratios,
        "inside": inside,
        "forks_seconds": spent,
        "processor_seconds": taken,
    }
    path.write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
