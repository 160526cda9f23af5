"""Ranks that are threads of one process, each with a model of its own, for what they ask of each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import torch

from hasten.inside.distributed.evaluation import SharedEvaluation

SECONDS = 60


class Stopped(Exception):
    """What ends a rank."""


class OutOfTurn(Exception):
    """A rank told another number of things than the others, or none."""


class Meeting:
    """Where all ranks of a test meet."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.given: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)


class Told:
    """Stands for a rank's ``Communication``."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self.rank, self.size = meeting, rank, meeting.size

    def gathered(self, tensor: Any) -> Any:
        self._meeting.given[self.rank] = tensor.clone()
        self._meeting.barrier.wait(SECONDS)
        given = list(self._meeting.given)
        self._meeting.barrier.wait(SECONDS)
        if len({one.shape for one in given}) > 1:
            raise OutOfTurn([one.shape for one in given])
        return torch.stack(given)


class Rank:
    """``ask`` stands for a root's call under no_grad, in evaluation mode."""

    def __init__(self, meeting: Meeting, rank: int, model: Any) -> None:
        self.rank, self.model = rank, model.eval()
        self.in_step = False
        self.rows: list[int] = []  # of each time that the model was computed
        self.evaluation = SharedEvaluation(Told(meeting, rank), lambda: self.in_step, _stop)  # type: ignore[arg-type]

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = torch.utils._pytree.tree_flatten((args, kwargs))[0]
            self.rows += [len(leaf) for leaf in leaves if torch.is_tensor(leaf) and leaf.dim()][:1]
            return self.model(*args, **kwargs)

        with torch.no_grad():
            return self.evaluation.run(self.model, call, args, kwargs)


def _stop(reason: str) -> NoReturn:
    raise Stopped(reason)


def ranks_ask(made: Callable[[], Any], ask: Callable[[Rank], Any], size: int = 2) -> Sequence[Any]:
    """What ``ask`` returns in each of ``size`` ranks; what one raises is raised."""
    meeting = Meeting(size)
    models = [made() for _ in range(size)]  # here: threads share the RNG states

    def one(rank: int) -> Any:
        try:
            return ask(Rank(meeting, rank, models[rank]))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as threads:
        found = [threads.submit(one, rank) for rank in range(size)]
    errors = [error for future in found if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in found]
