"""Passes over loaders that read on in one iterator of torch's: what is an epoch, and what an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.observing.timeline import Timeline, clock
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.records.whole_run import WatchedRun


class Repeats:
    """A sampler that begins anew for ever."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from iter(self.sampler)


class Keeps(DataLoader[Any]):
    """Makes its iterator when it is first read, as Ultralytics' does."""

    iterator: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeats(self.batch_sampler))

    def __len__(self) -> int:
        repeats: Any = self.batch_sampler
        return len(repeats.sampler)

    def __iter__(self) -> Any:
        if self.iterator is None:
            self.iterator = self._get_iterator()
        for _ in range(len(self)):
            yield next(self.iterator)


class KeepsFromTheStart(Keeps):
    """As timm's does, and Ultralytics' did."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.iterator = DataLoader.__iter__(self)


class ToElsewhere(DataLoader[Any]):
    """Has an ``__iter__`` of its own, and ends, as accelerate's does."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


class Plain(DataLoader[Any]):
    pass


def trained(
    seams: Seams, kind: type[DataLoader[Any]], epochs: int = 3, each: int = 1
) -> tuple[WatchedRun, list[RawStep]]:
    """Four batches an epoch, a step after ``each``; then an average is evaluated on two batches of 8."""
    steps: list[RawStep] = []
    timeline = Timeline(clock(), lambda: "train.py:1")
    Hooks(Training(torch, seams, 2**32), Observer(steps.append, timeline), lambda: None).install()
    train, test = (kind(TensorDataset(torch.ones(n, 4)), batch_size=8) for n in (32, 16))
    model, average = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for number, (inputs,) in enumerate(train):
            model(inputs).sum().backward()
            if (number + 1) % each == 0:
                optimizer.step()
        with torch.no_grad():
            for (inputs,) in test:
                average(inputs)
    for (inputs,) in train:
        model(inputs).sum().backward()
        optimizer.step()
        break
    return timeline.watched(ended=False), steps


@pytest.mark.parametrize("kind", [Plain, Keeps, KeepsFromTheStart, ToElsewhere])
@pytest.mark.parametrize("each", [1, 2])
def test_epochs_and_evaluations_are_told(seams: Seams, kind: type[DataLoader[Any]], each: int) -> None:
    run, steps = trained(seams, kind, each=each)
    evaluation = run.part("evaluation")
    assert run.epochs == 3
    assert (evaluation.count, evaluation.samples) == (3, 3 * 16)
    assert run.part("first batches").count == 4
    first = [at for at, step in enumerate(steps) if step.restarts]
    assert first == [number * 4 // each for number in range(4)]


def forever(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


@pytest.mark.parametrize("keeps_workers", [False, True])
def test_two_loaders_that_take_turns_are_read_in_one_epoch(seams: Seams, keeps_workers: bool) -> None:
    """The second begins while the first is held; of loaders that keep their workers that is not known."""
    timeline = Timeline(clock(), lambda: "train.py:1")
    Hooks(Training(torch, seams, 2**32), Observer(lambda _: None, timeline), lambda: None).install()
    workers: Any = {"num_workers": 1, "persistent_workers": True} if keeps_workers else {}
    data = TensorDataset(torch.ones(32, 4)), TensorDataset(torch.ones(40, 4))
    turns = [forever(DataLoader(one, batch_size=8, **workers)) for one in data]
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):  # the first loader begins anew in step 8
        (inputs,) = next(turns[step % 2])
        model(inputs).sum().backward()
        optimizer.step()
    assert timeline.watched(ended=False).epochs == (2 if keeps_workers else 1)
