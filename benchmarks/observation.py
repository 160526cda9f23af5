"""What watching costs: steps with all seams in against steps without them, switched inside one training.

    python -m benchmarks.observation

Blocks of steps go in the order A B B A in one process, several processes one after another; a process
counts once. Times are taken by a clock outside everything that is switched.
"""

from __future__ import annotations

import argparse
import json
import math
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from hasten.bench.comparing.statistics import interval
from hasten.examples import path
from hasten.inside.job import Job
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.seams import Seams
from hasten.inside.worker.instruments import Instruments
from hasten.machine import this_machine

from .results import write_result

PROCESSES = 5
ABBA_BLOCKS = 24
BLOCK_SECONDS = 0.15
WIDTHS = {"small perceptron": 32, "perceptron": 256, "wide perceptron": 768}
TRAININGS = (*WIDTHS, "convolutional", "fashion_cnn")


def training(kind: str) -> tuple[Callable[[int], None], Any]:
    """A function that trains some steps of a usual loop: loader, forward, loss, backward, Adam; and Adam."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    if kind == "fashion_cnn":
        return shipped_example()
    torch.set_num_threads(1)
    if kind == "convolutional":
        inputs, batch = torch.randn(2048, 1, 28, 28), 32
        model: nn.Module = nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
    else:
        width = WIDTHS[kind]
        inputs, batch = torch.randn(4096, 64), 64
        model = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
        )
    loader = DataLoader(
        TensorDataset(inputs, torch.randint(0, 10, (len(inputs),))), batch_size=batch, shuffle=True
    )
    return loop(model, loader)


def shipped_example() -> tuple[Callable[[int], None], Any]:
    """The example fashion_cnn: its model and data, its threads, batches of 64."""
    from torch.utils.data import DataLoader

    names = runpy.run_path(str(path("fashion_cnn")))
    steps = [
        names["Resize"](32),
        names["AutoContrast"](),
        names["ToTensor"](),
        names["Normalize"]([0.3], [0.36]),
    ]
    data = names["FashionMNIST"](train=True, transform=names["Compose"](steps))
    return loop(names["Net"](), DataLoader(data, batch_size=64, shuffle=True))


def loop(model: Any, loader: Any) -> tuple[Callable[[int], None], Any]:
    """A function that trains some steps, and the optimizer."""
    import torch
    from torch import nn

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batches = iter(loader)

    def train(steps: int) -> None:
        nonlocal batches
        for _ in range(steps):
            try:
                samples, labels = next(batches)
            except StopIteration:
                batches = iter(loader)
                samples, labels = next(batches)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(samples), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return train, optimizer


def one_process(kind: str, abba_blocks: int) -> None:
    """Print the ABBA blocks of one process as JSON: seconds a step, watched and not."""
    import torch

    job = Job(("train.py",), this_machine())
    train, optimizer = training(kind)
    train(30)
    began = time.perf_counter()
    train(20)
    block = max(10, math.ceil(BLOCK_SECONDS * 20 / (time.perf_counter() - began)))

    def seconds(watched: bool) -> float:
        seams = Seams()
        steps: list[RawStep] = []
        if watched:
            instruments = Instruments(torch, job, seams, steps.append, lambda: None, time.perf_counter())
            instruments.training.add_optimizer(optimizer)  # as if its making had been watched
        try:
            train(2)  # in which roots are found
            began = time.perf_counter()
            train(block)
            return (time.perf_counter() - began) / block
        finally:
            seams.undo_all()
            assert len(steps) == (block + 2 if watched else 0)

    blocks = []
    for number in range(abba_blocks):
        order = (True, False, False, True) if number % 2 == 0 else (False, True, True, False)
        times = [seconds(watched) for watched in order]
        blocks.append(
            {
                "watched": fmean(t for t, w in zip(times, order, strict=True) if w),
                "plain": fmean(t for t, w in zip(times, order, strict=True) if not w),
            }
        )
    print(json.dumps(blocks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one-process", metavar="TRAINING", choices=TRAININGS)
    parser.add_argument("--abba-blocks", type=int, default=ABBA_BLOCKS, help="of each process")
    arguments = parser.parse_args()
    if arguments.one_process:
        one_process(arguments.one_process, arguments.abba_blocks)
        return
    content = {}
    for kind in TRAININGS:
        content[kind] = measured(kind, PROCESSES, arguments.abba_blocks)
        print(in_words(kind, content[kind]), flush=True)
    write_result("observation", content)


def measured(kind: str, processes: int, abba_blocks: int) -> dict[str, Any]:
    """``ratio``: of a watched step's time to a plain one's, over processes."""
    found = []
    for _ in range(processes):
        options = ["--one-process", kind, "--abba-blocks", str(abba_blocks)]
        command = [sys.executable, "-m", "benchmarks.observation", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    ratio = interval(
        [median(math.log(block["watched"] / block["plain"]) for block in blocks) for blocks in found],
        "processes",
    )
    assert ratio is not None
    return {
        "ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high},
        "added_seconds": median(block["watched"] - block["plain"] for blocks in found for block in blocks),
        "step_seconds": median(block["plain"] for blocks in found for block in blocks),
        "abba_blocks": found,
    }


def in_words(kind: str, found: dict[str, Any]) -> str:
    value, low, high = (found["ratio"][name] - 1 for name in ("value", "low", "high"))
    return (
        f"{kind}: a step of {1e3 * found['step_seconds']:.2f} ms takes {1e6 * found['added_seconds']:.1f} us "
        f"more when watched, {value:+.2%} ({low:+.2%} to {high:+.2%}, {len(found['abba_blocks'])} processes)"
    )


if __name__ == "__main__":
    main()
