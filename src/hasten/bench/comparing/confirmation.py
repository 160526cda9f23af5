"""The confirmation of a plan: pairs of fresh processes. If only unseen slow processes could spoil the claim,
it also starts more processes under the plan, each for one block.

Pairs compare usual steps, by medians, which one slow step does not move. If some steps are slow under the
plan that are not without it, medians promise too much: then the means of all regular steps are compared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from ...errors import WorkerError
from ...records.plan import Plan
from ...records.trial import Trial
from ..workers.ending import BudgetOver, PlanRefused, ScriptOver
from .decisions import Effort, looks_of, worth_looking
from .pairs import MeasureFailed, PairsBench
from .statistics import interval

Clock = Callable[[], float]

_AT_ONCE = 2  # as in a pair
_UNEVEN = 0.03  # by so much more the mean of the plan's steps may exceed their median, in half of the pairs


def confirm(bench: PairsBench, a: Plan, b: Plan, effort: Effort, clock: Clock = time.monotonic) -> Trial:
    """``b`` against ``a``: all pairs of ``effort``, and processes under ``b`` alone if these decide."""
    trial = replace(bench.compare(a, b, effort.pairs), looks_most=effort.looks, claims=effort.claims)
    trial = _of_all_steps(trial)
    if trial.failure is not None or trial.cut_short:
        return trial
    began, seconds = clock(), list(bench.sample_seconds_b)
    looks: list[float] = []
    failure, cut_short = None, False
    try:
        while worth_looking(trial.log_ratios, looks, effort.looks, effort.claims):
            seconds += bench.singles([b] * _AT_ONCE)
            looks = looks_of(seconds, effort.pairs)
    except BudgetOver:
        cut_short = True
    except (MeasureFailed, ScriptOver, PlanRefused, WorkerError) as error:
        failure = str(error)
    return replace(
        trial,
        looks=tuple(looks),
        seconds=trial.seconds + clock() - began,
        ratio=None if failure else trial.ratio,
        failure=failure,
        cut_short=cut_short,
    )


def _of_all_steps(trial: Trial) -> Trial:
    """``trial`` with the ratios of mean steps, if the plan makes steps uneven: they are larger then."""
    if trial.method != "pairs" or trial.ratio is None:
        return trial
    both = zip(trial.processes_a, trial.processes_b, strict=True)
    more = [math.log(b.uneven / a.uneven) for a, b in both]
    if median(more) <= _UNEVEN:
        return trial
    means = tuple(ratio + one for ratio, one in zip(trial.log_ratios, more, strict=True))
    return replace(trial, log_ratios=means, ratio=interval(means, "pairs"), all_steps=True)
