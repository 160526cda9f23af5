"""Real workers for tests: a small training written into a folder, and trials of it."""

from __future__ import annotations

import os
import select
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.machine import this_machine

from ..patience import PATIENCE_SECONDS

# What the scripts of these tests have in common; it is next to them, as a module of the user's own.
GROUND = '''
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures that hint at their label, the same whenever they are drawn; each takes a while to make."""

    def __init__(self, count=64, seconds=0.0):
        generator = torch.Generator().manual_seed(7)
        self.labels = [int(n) for n in torch.randint(0, 4, (count,), generator=generator)]
        self.pictures = torch.randn(count, 3, 8, 8, generator=generator)
        self.seconds = seconds

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.pictures[index] + 0.1 * self.labels[index], self.labels[index]


class Cnn(torch.nn.Module):
    """``flatten`` is how it gets from pictures to rows; a view fails where they lie channels last."""

    def __init__(self, flatten=torch.nn.Flatten()):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.flatten = flatten
        self.head = torch.nn.Linear(8 * 8 * 8, 4)

    def forward(self, pictures):
        return self.head(self.flatten(torch.relu(self.conv(pictures))))


def batches(dataset, steps=10**9):
    """``steps`` batches, epoch after epoch."""
    taken = 0
    while True:
        for batch in DataLoader(dataset, batch_size=8, shuffle=True):
            if taken == steps:
                return
            taken += 1
            yield batch


def train_step(model, optimizer, pictures, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(pictures), labels)
    loss.backward()
    optimizer.step()
    return loss
'''

PLAIN = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for pictures, labels in batches(Pictures()):
        train_step(model, optimizer, pictures, labels)
"""


def write_script(folder: Path, source: str, name: str = "train.py") -> Path:
    """Write a script, and the module that the scripts share, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ground.py").write_text(GROUND)
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return path


def one_thread() -> dict[str, str]:
    """The environment for workers: one thread each, so that a busy machine does not make them crawl."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def trials_for(folder: Path, source: str, *arguments: str, **changes: Any) -> Iterator[Trials]:
    """Trials of a script in ``folder``/script; what workers print goes into ``folder``/output. ``changes`` of
    their stage.
    """
    script = write_script(folder / "script", source)
    stage = Stage(
        argv=(str(script), *arguments),
        machine=this_machine(),
        environment=one_thread(),
        folders=(str(script.parent),),
    )
    with Trials(replace(stage, **changes), folder / "output") as trials:
        yield trials


def first_output(folder: Path) -> str:
    """What the first worker has printed, as soon as there is something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (text := (folder / "output/worker-001.stdout").read_text()):
        assert time.monotonic() < deadline, "the script printed nothing"
        time.sleep(0.01)
    return text


def children() -> set[int]:
    """Processes that this one has started and not yet waited for, but for what clears trials away."""
    found = {int(pid) for task in _tasks(os.getpid()) for pid in _listed(task / "children")}
    return {pid for pid in found if b"clearing.py" not in _command(pid)}


def descendants(pid: int) -> set[int]:
    """Whatever a process has started, and what those have, by the numbers that we see them under."""
    found = {int(child) for task in _tasks(pid) for child in _listed(task / "children")}
    return found.union(*map(descendants, found))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def has_ended(pid: int, within_seconds: float = 20.0) -> bool:
    """Wait for the end of any process, ours or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_seconds)[0])
    finally:
        os.close(descriptor)


def _listed(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
