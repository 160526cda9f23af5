"""The guard: is the training under a plan the same training?

Runs from one seed are compared step by step: the baseline, the plan, and baselines with noise the size of
rounding, which show how much of a difference means nothing.

One perturbed baseline is one draw of what rounding does, and the noise's size is a guess. So if a plan would
be refused only for the size of a difference, everything is trained once more along with more of them. The
baseline is then trained in float64 as well, which shows how far the baseline itself is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from ...errors import WorkerError
from ...inside.job import Perturbation
from ...records.plan import BASELINE, Plan
from ...records.verdict import GuardVerdict
from ..trials import Trials
from ..workers.ending import BudgetOver, PlanRefused, ScriptOver
from ..workers.worker import Worker
from .amplified import More, by_more_baselines
from .checked_steps import MOST_AT_ONCE, Check, Watched, started, watch
from .departures import gradient_departures
from .judging import apart_before, steps_to_leave
from .own_batches import verdict_on
from .single_steps import ROUNDING, TURNED
from .unchecked import not_checked, unless_idle

STEPS = 120
CLOSER_STEPS = 60
_AT_ONCE = 3  # plans, each in memory along with four baselines
_MOST_NOISE = ROUNDING["tfloat32"]  # if single steps show more than rounding in the plan's own precision


def guard(
    trials: Trials,
    plan: Plan,
    draws: bool,
    precision: str,
    seed: int,
    steps: int = STEPS,
    most: float = math.inf,
) -> GuardVerdict:
    """Compare the first ``steps`` steps of a training under ``plan`` with the baseline's.

    ``draws``: the plan may draw different random numbers from the same distributions. ``precision``: the
    lowest the plan computes in, a key of ROUNDING. ``most``: seconds from now on, after which nothing more is
    looked at that may speak for the plan.
    """
    before, began = 0, trials.limit.clock()
    try:
        trainings = three_trainings(trials, plan, draws, precision, seed, steps)
        before = steps_to_leave(trainings[0].trace, trainings[1].trace, draws)
        if before:
            trainings = three_trainings(trials, plan, draws, precision, seed, steps, before)
    except (PlanRefused, ScriptOver, WorkerError) as error:
        if trials.starts.room.failed(str(error)):  # the processes leave each other more, next time
            return guard(trials, plan, draws, precision, seed, steps, most - (trials.limit.clock() - began))
        return not_checked(error)
    took = trials.limit.clock() - began
    with trials.limit.ending(most - took):
        verdict = judged_closely(trials, plan, trainings, draws, precision, seed, steps, before)
    return replace(verdict, first_seconds=took)


def judged_closely(
    trials: Trials,
    plan: Plan,
    trainings: tuple[Watched, Watched, Watched],
    draws: bool,
    precision: str,
    seed: int,
    steps: int,
    before: int = 0,
) -> GuardVerdict:
    """The verdict on ``three_trainings``, after a closer look if only the size of a difference is against the
    plan. Steps ``before`` the compared ones are the baseline's in all of them.
    """
    if before and (apart := apart_before(*trainings)) is not None:
        return apart
    verdict = replace(verdict_on(*trainings, draws, precision), after=before)
    _, perturbed, candidate = trainings
    if verdict.accuracy != "not held" or verdict.invariants.differing:
        return unless_idle(verdict, plan, candidate.proofs)
    shown = _worst(candidate.checks) / max(_worst(perturbed.checks), ROUNDING[precision])
    try:
        trials.limit.check("before a closer look")
        few = min(steps, CLOSER_STEPS)
        (closer,) = closer_look(trials, [plan], draws, precision, seed, few, shown, before)
    except BudgetOver:
        return replace(verdict, cut_short=True)
    except (PlanRefused, ScriptOver, WorkerError) as error:
        if trials.starts.room.failed(str(error)):
            return judged_closely(trials, plan, trainings, draws, precision, seed, steps, before)
        return verdict
    return verdict if closer.unchecked else unless_idle(replace(closer, after=before), plan, candidate.proofs)


def three_trainings(
    trials: Trials, plan: Plan, draws: bool, precision: str, seed: int, steps: int, before: int = 0
) -> tuple[Watched, Watched, Watched]:
    """A baseline's, a perturbed baseline's and the plan's training, step by step in parallel, after
    ``before`` steps that are the baseline's in all three.

    Raises PlanRefused, ScriptOver or WorkerError if one of them does not reach its first step, or fails.
    """
    noise = Perturbation(ROUNDING[precision], redraw=draws, seed=seed, after=before)
    trials.rehearse(plan)
    with ExitStack() as stack:
        wanted = (BASELINE, None), (BASELINE, noise), (plan, None)
        reference, *both = started(stack, trials, wanted, seed, before)
        first, (second, third) = watch(reference, both, steps, trials.aside, trials.limit, before)
    return first, second, third


def closer_look(
    trials: Trials,
    plans: Sequence[Plan],
    draws: bool,
    precision: str,
    seed: int,
    steps: int,
    shown: float = 1.0,
    before: int = 0,
) -> list[GuardVerdict]:
    """Verdicts on ``plans``, with rounding measured by two perturbed baselines, and in float64.

    ``shown``: how many times a perturbed baseline's single-step differences the plan's are. If single steps
    held, noise of that size may grow in the losses, as it does in one of the two.

    Raises ScriptOver or WorkerError if a baseline does not reach its first step, or something fails;
    PlanRefused if its processes cannot train one of ``plans``.
    """
    usual = ROUNDING[precision]
    larger = max(usual, min(usual * shown, _MOST_NOISE))
    for plan in plans:
        trials.rehearse(plan)
    with ExitStack() as stack:
        noises = [Perturbation(size, draws, seed + n, before) for n, size in ((1, usual), (2, larger))]
        baselines = started(stack, trials, [(BASELINE, noise) for noise in (None, *noises)], seed, before)
        verdicts: list[GuardVerdict | None] = []
        planned: list[Worker] = []
        for plan in plans:
            try:
                (each,) = started(stack, trials, [(plan, None)], seed, before)
            except (PlanRefused, ScriptOver, WorkerError) as error:
                verdicts.append(not_checked(error))
                continue
            verdicts.append(None)
            planned.append(each)
        exactly = [] if before else _in_float64(trials, seed, stack)  # which would differ before
        reference, *others = [*baselines, *planned, *exactly]
        first, (perturbed, grown, *rest) = watch(reference, others, steps, trials.aside, trials.limit, before)
    candidates, exact = rest[: len(planned)], rest[len(planned) :]
    if larger > usual:
        grown.checks = [replace(check, gradient={}, update={}, buffers={}) for check in grown.checks]
    for one in exact:
        one.trace, one.checks = (), _comparable(one.checks)

    def judged(more: More) -> list[GuardVerdict]:
        by = draws, precision, [grown, *exact, *more.grown], more.noisier
        return [verdict_on(first, perturbed, one, *by) for one in candidates]

    found = iter(by_more_baselines(judged, trials, draws, precision, seed, before))
    return [verdict or next(found) for verdict in verdicts]


def _in_float64(trials: Trials, seed: int, stack: ExitStack) -> list[Worker]:
    """The baseline in float64, if it can train that way."""
    if trials.stage.own_ranks is not None:
        return []
    try:
        one = trials.worker(BASELINE, seed=seed, traced=True, doubled=True, at_once=MOST_AT_ONCE)
        exact = stack.enter_context(one)
        exact.wait_started()
    except (PlanRefused, ScriptOver, WorkerError):
        return []
    return [exact]


def _comparable(checks: Sequence[Check]) -> list[Check]:
    """The checks without those in which float64 differs too much for rounding, for example by different
    random numbers. What grew between checks is not used: a training in float64 leaves rounding out.
    """
    return [replace(check, since={}, counts=()) for check in checks if _worst([check]) <= TURNED.residual]


def _worst(checks: Sequence[Check]) -> float:
    """The largest difference of a gradient in a single step, relative."""
    return max((departed.residual for departed in gradient_departures(checks)), default=0.0)


def each_alone(
    trials: Trials, plan: Plan, draws: bool, precision: str, seed: int, steps: int, before: int = 0
) -> dict[str, GuardVerdict]:
    """A verdict on each technique of ``plan`` alone, with the rounding and the draws allowed to the whole.
    What cannot be checked this way is left out. ``before``: as in the verdict on the whole.
    """
    found: dict[str, GuardVerdict] = {}
    names = list(plan.techniques)
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        plans = [plan.only({name}) for name in some]
        with suppress(PlanRefused, ScriptOver, WorkerError):
            few = min(steps, CLOSER_STEPS)
            verdicts = closer_look(trials, plans, draws, precision, seed, few, before=before)
            found |= {
                name: verdict for name, verdict in zip(some, verdicts, strict=True) if not verdict.unchecked
            }
    return found
