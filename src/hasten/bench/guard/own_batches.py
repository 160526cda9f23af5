"""Where a script that makes its own batches, without a loader, is not the same twice: its processes race to
fill a queue, for example. From the first step on in which its models are given something else, steps of two
trainings are not to be compared, whatever the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...records.trace import Trace
from ...records.verdict import Difference, GuardVerdict
from . import judging
from .checked_steps import LEAST_STEPS, Check, Watched


def verdict_on(
    reference: Watched,
    perturbed: Watched,
    candidate: Watched,
    draws: bool,
    precision: str,
    others: Sequence[Watched] = (),
    noisier: Sequence[Check] = (),
) -> GuardVerdict:
    """As ``judging.verdict_on``, over the steps before one of the trainings was given another batch. If these
    are too few, what speaks against a plan may be the batches: then nothing is known.
    """
    seen = [one.trace for one in (perturbed, candidate, *others) if one.trace]
    parted = _step_they_part(reference.trace, seen)
    if parted is not None and parted > LEAST_STEPS:
        reference, perturbed, candidate, *others = (
            _until(parted, one) for one in (reference, perturbed, candidate, *others)
        )
        return judging.verdict_on(reference, perturbed, candidate, draws, precision, others, noisier)
    verdict = judging.verdict_on(reference, perturbed, candidate, draws, precision, others, noisier)
    if parted is None or verdict.accuracy != "not held":
        return verdict
    unsteady = (Difference("inputs", parted),)
    return replace(verdict, accuracy="not checked", why_not="unrepeatable", unsteady=unsteady)


def _step_they_part(reference: Trace, others: Sequence[Trace]) -> int | None:
    """The first step in which one of ``others`` was given whole numbers that the reference was not, while
    random streams and loaders' batches were the same, in it, too; None if there is none.
    """
    found = [step for one in others if (step := _parts(reference, one)) is not None]
    return min(found, default=None)


def _parts(a: Trace, b: Trace) -> int | None:
    for step, (x, y) in enumerate(zip(a, b, strict=False), 1):
        if (x.streams, x.batches) != (y.streams, y.batches):
            return None
        if x.inputs != y.inputs:
            return step
    return None


def _until(step: int, watched: Watched) -> Watched:
    """What was seen before ``step``."""
    checks = [check for check in watched.checks if check.step < step]
    return replace(watched, trace=watched.trace[: step - 1], checks=checks)
