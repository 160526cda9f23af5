"""A stretch of a run, from one thing that was seen to the next: the timeline gives it to a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

GAP, FIRST, REST, EVALUATION = "gap", "first", "rest", "evaluation"
"""Kinds of stretch: after a step or an evaluation; from a loader's beginning to its first batch; with a batch
or a forward pass; an evaluation.
"""


@dataclass(slots=True)
class Stretch:
    kind: str
    seconds: float
    where: str = ""
    batches: int | None = None  # that the loader which began will give
    samples: int = 0
    trained: bool = False  # a backward pass ran in it
    over: bool = False  # an evaluation whose loader had none left
    gradients: bool = False  # an evaluation that computed them
    waits: Sequence[Callable[[], None]] = ()  # called if it turns out to be of a step
