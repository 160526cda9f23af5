"""What watching costs that ranks stay one model, and one process's: two ranks, watched and not.

    python -m benchmarks.watching_ranks [--steps 40] [--rounds 100]
    python -m benchmarks.watching_ranks --example fashion_cnn --epochs 1

Both are the same processes: watching is switched off and on again from one block of steps to the next, in the
order A B B A, at the same step in both ranks. A step's time watched is divided by that not watched, in each
round. Blocks are short, so that what else happens on the machine falls on both; there are many of them, and
the interval is over rounds. Each rank's processor time is compared in the same way, because others on the
machine change it less than the time on the clock; what the watching functions take is timed, too. Steps done
once more in a fork are rare: their processor time is counted, of all ranks and forks. A rehearsal comes first
(1,200 steps in all).

An example is trained once, watched throughout: what the watching functions take is timed, and the processor
time of forks counted.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hasten import examples
from hasten.bench.comparing.statistics import interval
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

EXAMPLE = """
import os, runpy, sys, time, torch
watch = sys.modules.get("hasten.inside.distributed.watch")
checks = sys.modules.get("hasten.inside.distributed.spot_checks")
spent, counted = [0.0], [0]
def timed(call, each):
    def timing(*arguments):
        began = time.perf_counter()
        try: return call(*arguments)
        finally: spent[0] += time.perf_counter() - began; counted[0] += each
    return timing
if watch:
    for name, each in (("told", 1), ("heard", 0), ("compare_all", 0)):
        setattr(watch.Watch, name, timed(getattr(watch.Watch, name), each))
    for name in ("told", "heard", "finish"):
        setattr(checks.SpotChecks, name, timed(getattr(checks.SpotChecks, name), 0))
began = time.perf_counter()
script = %r
sys.path.insert(0, os.path.dirname(script))
runpy.run_path(script, run_name="__main__")
took, steps = time.perf_counter() - began, counted[0]
if steps: print("inside", f"{spent[0] / steps:.9f} {took / steps:.6f} {steps}", file=sys.stderr, flush=True)
spent = [one._spent for one in __import__("gc").get_objects() if type(one).__name__ == "SpotChecks"]
took = os.times()
print("forks", sum(spent), took.user + took.system, file=sys.stderr, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--example", help="one of hasten's own, in place of the two arms")
    arguments, further = parser.parse_known_args()
    if arguments.example:
        _of_example(arguments.example, further)
    else:
        _of_both_arms(arguments.steps, arguments.rounds)


def _run(source: str, arguments: Sequence[str] = ()) -> list[list[str]]:
    """What the ranks print to standard error, in words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(source)
        done = subprocess.run(
            [sys.executable, "-m", "hasten.cli.main", "run", "--nproc-per-node", "2", str(path), *arguments],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return [line.split() for line in done.stderr.splitlines() if line.strip()]


def _of_example(name: str, arguments: Sequence[str]) -> None:
    lines = _run(EXAMPLE % str(Path(examples.__file__).with_name(f"{name}.py")), arguments)
    inside = [[float(word) for word in words[1:]] for words in lines if words[0] == "inside"]
    if not inside:
        raise SystemExit(f"{name}: no step was watched, so nothing was measured")
    per_step, step, steps = max(inside)
    print(
        f"{name}, {steps:.0f} steps: all that a rank does to watch takes {1e6 * per_step:.0f} us a step, "
        f"{per_step / step:.2%} of {1e3 * step:.1f} ms"
    )
    spent, taken = _forks(lines)
    _keep(
        {"example": [name, *arguments], "inside": inside, "forks_seconds": spent, "processor_seconds": taken}
    )


def _forks(lines: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Processor seconds of the steps done once more, and of all ranks."""
    forks = [(float(words[1]), float(words[2])) for words in lines if words[0] == "forks"]
    if not forks or not forks[0][0]:
        raise SystemExit("no step was done once more, so that was not measured: train for longer")
    spent, taken = forks[0][0], sum(took for _, took in forks) * 2 / len(forks)
    print(f"steps done once more took {spent:.2f} s of processor time, {spent / taken:.2%} of {taken:.1f} s")
    return spent, taken


def _keep(raw: dict[str, Any]) -> None:
    path = FOLDER / f"{datetime.now(timezone.utc):%Y-%m-%d}-watching_ranks.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({"machine": this_machine().identity, **raw}) + "\n")


def _of_both_arms(steps: int, rounds: int) -> None:
    lines = _run(SCRIPT % (steps, rounds))
    ratios = {
        what: [float(words[1]) for words in lines if words[0] == what] for what in ("step", "processor")
    }
    inside = [float(words[1]) for words in lines if words[0] == "inside"]
    if not any(inside):
        raise SystemExit("no step was watched, so nothing was measured")
    plain = statistics.median(float(words[2]) / 1e3 for words in lines if words[0] == "step")
    print(
        f"all that a rank does to watch takes {1e6 * max(inside):.0f} us a step, "
        f"{max(inside) / plain:.2%} of {1e3 * plain:.1f} ms"
    )
    for what, several in ratios.items():
        found = interval([math.log(ratio) for ratio in several], "round")
        assert found is not None
        print(
            f"{'a step' if what == 'step' else 'its processor time'}, watched, is {found.value:.4f} "
            f"({found.low:.4f} to {found.high:.4f}, {len(several)} rounds; median "
            f"{statistics.median(several):.4f}) times that of one that is not"
        )
    spent, taken = _forks(lines)
    _keep({"ratios": ratios, "inside": inside, "forks_seconds": spent, "processor_seconds": taken})


if __name__ == "__main__":
    main()
