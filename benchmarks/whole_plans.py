"""Plans compared by whole runs of a script, start, evaluation and end included."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError

from hasten.bench.comparing.pairs import MeasureFailed
from hasten.bench.comparing.statistics import interval
from hasten.plans.files import SavedPlan, write_plan
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial

from .runs import Runner, hasten, run


class WholeRuns:
    """``words``: the script and its arguments. The baseline is plain Python; hasten's own start counts as a
    part of every plan's run. Plans are written into ``folder``, where the script runs.
    """

    def __init__(self, words: Sequence[str], folder: Path, runner: Runner = run) -> None:
        self._words = words
        self._folder = folder
        self._runner = runner

    def singles(self, plans: Sequence[Plan]) -> list[float]:
        """Seconds of one run of each. Raises MeasureFailed."""
        return [self._seconds(plan) for plan in plans]

    def compare(self, a: Plan, b: Plan, pairs: int) -> Trial:
        """``b`` against ``a``: a run of each makes a pair, in the order A B B A."""
        began = time.monotonic()
        log_ratios: list[float] = []
        failure = None
        try:
            for number in range(pairs):
                order = (a, b) if number % 2 == 0 else (b, a)
                seconds = {plan: self._seconds(plan) for plan in order}
                log_ratios.append(math.log(seconds[b] / seconds[a]))
        except MeasureFailed as error:
            failure = str(error)
        ratio = None if failure else interval(log_ratios, "pairs")
        took = time.monotonic() - began
        return Trial(a, b, "pairs", tuple(log_ratios), ratio, None, None, took, failure=failure)

    def _seconds(self, plan: Plan) -> float:
        try:
            return self._runner(self._command(plan), self._folder).seconds
        except CalledProcessError as error:
            raise MeasureFailed(f"under {plan.key}: {error}") from error

    def _command(self, plan: Plan) -> list[str]:
        if plan == BASELINE:
            return [sys.executable, *self._words]
        write_plan(self._folder / "plan.toml", SavedPlan(plan))
        return hasten("run", "--strict", "--plan", "plan.toml", *self._words)  # or it would time another plan
