"""The most that a cure can give: a cause takes time where it is seen, and brings some along elsewhere.

- What is seen of it in other parts of the run: a data set that is slow makes evaluation slow, too.
- What it leaves behind (``of_the_run.bound_of``).

A bound is held against planted causes by ``benchmarks/diagnosis.py``: it may never lie below the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..records.cause import Cause
from ..records.facts import Facts
from .input import first_batches_too
from .of_the_run import bound_of, breakdown
from .waiting import standing_still


def bounded(cause: Cause, facts: Facts) -> Cause:
    """The cause with the most that any cure of it can give."""
    seen = breakdown(facts)
    others = _IN_PARTS.get(cause.name, ())
    if cause.name == "input" and not first_batches_too(facts):  # else they are in its share already
        others = (*others, "first batches")
    parts = seen.share(*others) if seen is not None else 0.0
    in_steps = _IN_STEPS[cause.name](facts) if cause.name in _IN_STEPS else 0.0
    steps = seen.share("steps") if seen is not None else 1.0
    return replace(cause, bound=bound_of(cause.share + parts + in_steps * steps))


_IN_PARTS: dict[str, tuple[str, ...]] = {
    "input": ("evaluation", "garbage"),  # which waits for batches, too; of what samples are made of
    "epochs": ("evaluation",),  # whose loader begins as slowly
    "loop": ("garbage", "output"),  # of what it makes, and prints, itself
    "waiting": ("output",),
    "optimizer": ("garbage",),
    "overhead": ("evaluation", "garbage"),  # the same operators
    "loss": ("evaluation", "garbage"),
    "compute": ("evaluation",),
    "float64": ("evaluation",),
    "threads": ("evaluation",),
    "padding": ("evaluation",),
}
"""Other parts of a run that may be due to the cause."""


def _first_batches(facts: Facts) -> float:
    """The share of steps spent waiting for data: workers that have just started make their first batches."""
    steps = facts.observation.steps
    seconds = sum(step.seconds for step in steps)
    return sum(step.phases["data"] for step in steps) / seconds if seconds else 0.0


def _at_lines(facts: Facts) -> float:
    """The share of a step in which it waits at lines of the loop's own code."""
    return standing_still(facts, lambda wait: wait.what != "print")[0]


_IN_STEPS: dict[str, Callable[[Facts], float]] = {"epochs": _first_batches, "loop": _at_lines}
