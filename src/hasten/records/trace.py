"""What the guard compares between two trainings, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchTrace:
    """A batch from a loader, as digests of its samples. ``epoch`` counts the passes over loaders;
    ``batches``: how many this pass has, None if that is not known.
    """

    epoch: int
    batches: int | None
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Mode:
    """Whether a model was called in training mode, and which of its modules were in the other."""

    training: bool
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepTrace:
    """One step. ``optimizer``: the one that ended it, -1 for none; ``batches``: digests of whole batches,
    None if no process saw one; ``inputs``: of whole numbers that forward passes were given, if no loader made
    a batch; ``modes`` of each forward pass; ``rates``: learning rates, by optimizer; ``streams``: a digest of
    all RNG states; ``printed``: lines with numbers, if the script evaluated before this step; ``begins``:
    weights were loaded before it, or its optimizer stepped for the first time after others had.
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
    inputs: tuple[str, ...] = ()


Trace = Sequence[StepTrace]
