"""More baselines with more noise, before a plan is refused for jumps that units which turn may cause.

A unit close to where it turns (ReLU, max pooling) turns under the least noise. How far the training then
jumps does not depend on how large the noise was; how often it happens does. Seen: one unit turned in two of
nine baselines with the noise of float32, and in one of eight with four times that. In all three the losses
were off by 0.21% to 0.22%, in the others by 0.0005% to 0.015%. So three baselines show too few of such jumps,
and what they allow is a lottery. With more noise there are more of them to see.

So what grows over steps - losses, the drift of parameters and optimizer state - may differ by as much as any
of them shows. Single steps stay sharp: a gradient may differ as far as in the same step of one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ...errors import WorkerError
from ...inside.job import Perturbation
from ...records.comparison import Scale
from ...records.messages import Sums
from ...records.plan import BASELINE
from ...records.trace import StepTrace
from ...records.verdict import GuardVerdict
from ..trials import Trials
from ..workers.ending import BudgetOver, ScriptOver
from .checked_steps import Check, Watched, started, watch
from .judging import differing
from .single_steps import ROUNDING

BASELINES = 4  # at once, so many times at most: until one has shown it
ROUNDS = 3
TIMES = 4.0  # the noise of the plan's rounding
SHARE = 0.5  # of what such a baseline shows that counts
_MOST_NOISE = ROUNDING["tfloat32"]  # beyond, units turn by the many as it is
_SEEDS = 100  # from the plan's seed to those of this noise, none of which was drawn before


@dataclass(frozen=True)
class More:
    """What additional baselines show over so many ``steps``. ``grown``: what grows over steps, as far as it
    counts. ``noisier``: the single steps that were checked, if these baselines have more noise.
    """

    grown: Sequence[Watched] = ()
    noisier: Sequence[Check] = ()
    steps: int = 0


def may_have_turned(verdict: GuardVerdict, precision: str, draws: bool) -> bool:
    """Whether a plan is refused only for what units that turn may cause: losses, drift between two single
    steps, and, if rounding is small, a gradient or running statistics in one of these steps.
    """
    numerics = verdict.numerics
    excused = ("gradient", "buffers") if _is_amplified(precision, draws) else ()
    by_itself: list[Scale | None] = [
        row
        for what, row in numerics.compared.items()
        if what not in excused and not what.startswith("since ")
    ]
    tensor = None if excused else numerics.worst_tensor
    return (
        verdict.accuracy == "not held"
        and not verdict.invariants.differing
        and not numerics.counts
        and verdict.loss_curve.deviation is not None
        and all(row.held for row in (*by_itself, tensor, numerics.mean_scale, numerics.worst_scale) if row)
    )


def by_more_baselines(
    judged: Callable[[More], list[GuardVerdict]],
    trials: Trials,
    draws: bool,
    precision: str,
    seed: int,
    before: int,
) -> list[GuardVerdict]:
    """The verdicts as ``judged`` without additional baselines; then with them, as long as units that turn may
    be why one is refused. One that stays refused for that says whether time ran out before all were trained.
    """

    def asks(verdict: GuardVerdict) -> bool:
        return may_have_turned(verdict, precision, draws)

    found, more = judged(More()), More()
    for number in range(ROUNDS):
        steps = max((verdict.steps for verdict in found if asks(verdict)), default=0)
        if not steps:
            break
        seeds = range(seed + _SEEDS + number * BASELINES, seed + _SEEDS + (number + 1) * BASELINES)
        try:
            few = more_baselines(trials, draws, precision, seed, seeds, steps, before)
        except BudgetOver:
            few = More()
        except (ScriptOver, WorkerError):
            break
        more = More([*more.grown, *few.grown], [*more.noisier, *few.noisier], few.steps)
        found = [new if asks(old) else old for old, new in zip(found, judged(more), strict=True)]
        if few.steps < steps:
            return [replace(one, cut_short=asks(one)) for one in found]
    return found


def _is_amplified(precision: str, draws: bool) -> bool:
    return not draws and TIMES * ROUNDING[precision] <= _MOST_NOISE


def more_baselines(
    trials: Trials, draws: bool, precision: str, seed: int, seeds: Sequence[int], steps: int, before: int
) -> More:
    """One baseline for each of ``seeds``, from which its noise is drawn, over so many steps; fewer steps if
    ``trials`` leave too little time. Noise is not increased if it is large anyway, or if different random
    numbers are drawn.

    Raises ScriptOver or WorkerError if one does not reach its first step, or something fails.
    """
    trials.limit.check("before more baselines were trained")
    amplified = _is_amplified(precision, draws)
    times, share = (TIMES, SHARE) if amplified else (1.0, 1.0)
    noises = [Perturbation(times * ROUNDING[precision], draws, one, before) for one in seeds]
    with ExitStack() as stack:
        wanted = [(BASELINE, noise) for noise in (None, *noises)]
        reference, *others = started(stack, trials, wanted, seed, before)
        first, watched = watch(reference, others, steps, trials.aside, trials.limit, before)
    noisier = [check for one in watched for check in one.checks] if amplified else []
    return More([counted(first, one, share, draws) for one in watched], noisier, len(first.trace))


def counted(reference: Watched, other: Watched, share: float, draws: bool) -> Watched:
    """A baseline that differs from ``reference`` by ``share`` of what ``other`` does, as long as that is the
    same training and its losses are numbers. Of single steps it only has the drift between them.
    """
    parted = [found.step - 1 for found in differing(reference.trace, other.trace, draws) if found.step]
    same = min([len(reference.trace), len(other.trace), *parted])
    trace = [
        _losses_between(ours, theirs, share)
        for ours, theirs in zip(reference.trace[:same], other.trace[:same], strict=True)
    ]
    lost = (n for n, step in enumerate(trace) if not all(map(math.isfinite, step.losses)))
    same = next(lost, same)
    checks = [_grown(check, share) for check in other.checks if check.step <= same]
    return Watched(tuple(trace[:same]), checks)


def _losses_between(reference: StepTrace, other: StepTrace, share: float) -> StepTrace:
    """The step with its losses moved by ``share`` of their difference; NaN if they have different numbers."""
    if len(reference.losses) != len(other.losses):
        return replace(reference, losses=(math.nan,))
    losses = zip(reference.losses, other.losses, strict=True)
    return replace(reference, losses=tuple(ours + share * (theirs - ours) for ours, theirs in losses))


def _grown(check: Check, share: float) -> Check:
    return Check(check.step, {}, since={what: _sums(sums, share) for what, sums in check.since.items()})


def _sums(sums: Sums, share: float) -> Sums:
    """The sums for r + share * (c - r), given the ``sums`` for c."""
    reference, product, apart = sums
    return [reference, reference + share * (product - reference), share**2 * apart]
