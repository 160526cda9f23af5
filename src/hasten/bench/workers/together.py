"""Several workers brought to their first step: at the same time, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...records.facts import Facts
from .worker import Worker

_MORE = 0.2  # of a start: what one more takes at the same time; on 16 cores 12 at once took no longer
_ROOMY = 8  # cores


def may_start_together(facts: Facts) -> bool:
    """Whether what workers compute before their first step is computed on a GPU, beside cores enough."""
    return facts.devices == {"cuda"} and facts.machine.usable_cpus >= _ROOMY


def at_first_step(
    starts: Sequence[Callable[[], Worker]],
    stack: ExitStack,
    together: bool,
    then: Callable[[Worker], object],
) -> list[Worker]:
    """Start workers, and call ``then`` for each once it has come to its first step's end. ``together``: at
    the same time; else one after the other, because threads that compute before it would wait for each
    other, and threads that spin keep the others' processors busy.
    """
    begun = [stack.enter_context(start()) for start in starts] if together else []
    workers = []
    for number, start in enumerate(starts):
        worker = begun[number] if together else stack.enter_context(start())
        worker.wait_started()
        then(worker)
        workers.append(worker)
    return workers


def seconds_of_starts(one: float, count: int, together: bool) -> float:
    """What ``count`` starts take if one alone takes ``one``."""
    return one * (1 + (count - 1) * (_MORE if together else 1.0))
