"""What the guard compares of two trainings, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchTrace:
    """A batch that a loader gave, by digests of its samples. ``epoch`` counts the passes over loaders;
    ``batches``: how many this pass has, None where that is not known.
    """

    epoch: int
    batches: int | None
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Mode:
    """Whether a model was called in training mode, and its modules that were in the other."""

    training: bool
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepTrace:
    """One step. ``optimizer``: which ended it, -1 for none; ``batches``: digests of whole batches, None
    where no process saw one; ``modes`` of each forward pass; ``rates``: learning rates, by optimizer;
    ``streams``: a digest of all states of random numbers; ``printed``: lines with numbers, where the script
    evaluated before this step; ``begins``: weights were loaded before it, or its optimizer stepped for the
    first time, where others had before.
    """

    optimizer: int = 0
    batches: tuple[str, ...] | None = ()
    samples: tuple[BatchTrace, ...] = ()
    modes: tuple[Mode, ...] = ()
    rates: tuple[tuple[float, ...], ...] = ()
    streams: str = ""
    losses: tuple[float, ...] = ()
    printed: tuple[str, ...] = ()
    begins: bool = False


Trace = Sequence[StepTrace]
