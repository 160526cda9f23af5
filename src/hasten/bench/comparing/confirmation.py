"""The confirmation of a plan: pairs of fresh processes. If only unseen slow processes could spoil the claim,
it also starts more processes under the plan, each for one block.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ...errors import WorkerError
from ...records.plan import Plan
from ...records.trial import Trial
from ..workers.ending import BudgetOver, PlanRefused, ScriptOver
from .decisions import Effort, looks_of, worth_looking
from .pairs import MeasureFailed, PairsBench

Clock = Callable[[], float]

_AT_ONCE = 2  # as in a pair


def confirm(bench: PairsBench, a: Plan, b: Plan, effort: Effort, clock: Clock = time.monotonic) -> Trial:
    """``b`` against ``a``: all pairs of ``effort``, and processes under ``b`` alone if these decide."""
    trial = replace(bench.compare(a, b, effort.pairs), looks_most=effort.looks, claims=effort.claims)
    if trial.failure is not None or trial.cut_short:
        return trial
    began, seconds = clock(), list(bench.sample_seconds_b)
    pairs = len(seconds)
    looks: list[float] = []
    failure, cut_short = None, False
    try:
        while worth_looking(trial.log_ratios, looks, effort.looks, effort.claims):
            seconds += bench.singles([b] * _AT_ONCE)
            looks = looks_of(seconds, pairs)
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
