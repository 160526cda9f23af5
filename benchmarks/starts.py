"""What it takes to bring two processes of a script to their first step: one by one, in turn, and together.

    python -m benchmarks.starts [SCRIPT [ARGUMENT ...]]      # else the examples, and two made for it

The three ways alternate. In turn, a process does what comes before its optimizer while the one before it
starts; together, nothing waits. ``computes_first`` runs an evaluation before its first step, as many training
loops do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from hasten.bench.trials import Trials
from hasten.bench.workers.worker import Worker
from hasten.examples import path

from .results import write_result
from .staging import staged

Way = Literal["one by one", "in turn", "together"]
ROUNDS = 3
EXAMPLES = ("fashion_cnn", "augmented_resnet", "bn_cnn", "char_gpt")
COMPUTES_FIRST = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    for _ in range(500):
        model(torch.randn(64, 256))
for _ in range(1000):
    optimizer.zero_grad()
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "computes_first.py")
        made.write_text(COMPUTES_FIRST)
        cases: list[tuple[Path, Sequence[str]]] = [(path(name), ()) for name in EXAMPLES]
        cases += [(made, ())]
        if len(sys.argv) > 1:
            cases = [(Path(sys.argv[1]), tuple(sys.argv[2:]))]
        rows = [measured(script, arguments) for script, arguments in cases]
    if len(sys.argv) == 1:
        write_result("starts", {"rows": rows})


def measured(script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {way: [] for way in get_args(Way)}
    of_each: dict[str, list[list[float]]] = {way: [] for way in get_args(Way)}
    with staged(script, arguments) as trials:
        with trials.worker() as first:  # reads files from disk
            first.wait_started()
        for _ in range(ROUNDS):
            for way in get_args(Way):
                whole, each = of_two(trials, way)
                seconds[way].append(whole)
                of_each[way].append(each)
    told = ", ".join(f"{way} {median(found):.2f} s" for way, found in seconds.items())
    print(f"{script.stem}: two processes start {told}", flush=True)
    return {"script": script.name, "seconds": seconds, "seconds_of_each": of_each}


def of_two(trials: Trials, way: Way) -> tuple[float, list[float]]:
    """Seconds for both, and what each says of its own start."""
    trials.starts.how = way
    began = time.monotonic()
    with ExitStack() as stack:
        starts = [lambda turn: trials.worker(turn=turn)] * 2
        workers = trials.starts.bring(starts, stack, lambda worker: worker.pause())
        return time.monotonic() - began, [own_seconds(worker) for worker in workers]


def own_seconds(worker: Worker) -> float:
    worker.resume()
    worker.proofs()  # which also tell how long its start took
    worker.pause()
    return worker.start_seconds


if __name__ == "__main__":
    main()
