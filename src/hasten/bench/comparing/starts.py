"""Plans that differ in how a process starts, compared up to its first training step.

Two fresh processes per pair, started at the same time as in ``pairs``: each has its own core, and they slow
each other equally. Techniques' set-up is not included. Step times are ignored: no technique that shortens the
start acts in steps.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

from ...records.plan import Plan
from ...records.run_forecast import SeenProcess
from ...records.trial import Trial
from ..workers.starting import wait_all_started
from ..workers.worker import Worker
from .pair import Pair
from .pairs import Enough, MeasureFailed, PairsBench

PARTS = ("start",)


class StartBench(PairsBench):
    """Like ``PairsBench``, for seconds from a process's start to the end of its first step. What both plans
    share may only take effect in steps, so its proofs are not checked: these processes train no further.
    """

    def compare(self, a: Plan, b: Plan, pairs: int, enough: Enough = lambda _: False) -> Trial:
        trial = super().compare(a, b, pairs, enough)
        return replace(
            trial,
            method="starts",
            parts=PARTS,
            step_seconds_a=None,
            step_seconds_b=None,
            setup_seconds=0.0,
            lasting_seconds=0.0,
        )

    @property
    def steps_needed(self) -> int:
        return 1

    def _pair(self, a: Plan, b: Plan, a_first: bool) -> Pair:
        with ExitStack() as stack:
            order = (a, b) if a_first else (b, a)
            workers = {plan: stack.enter_context(self._trials.worker(plan)) for plan in order}
            with self._trials.stopwatch.on("starting"):
                wait_all_started(list(workers.values()))
            proofs = tuple(p for p in workers[b].proofs() if p.technique not in a.techniques)
            workers[a].proofs()  # for the duration of its start
            seconds_a, seconds_b = (_start(workers[plan]) for plan in (a, b))
            return Pair(
                log_ratio=math.log(seconds_b / seconds_a),
                step_seconds_a=seconds_a,
                step_seconds_b=seconds_b,
                sample_seconds_b=seconds_b,
                proofs=proofs,
                lasting_seconds=0.0,
                setups_seconds=0.0,
                a=SeenProcess(seconds_a, 0.0, 0.0),
                b=SeenProcess(seconds_b, 0.0, 0.0),
            )


def _start(worker: Worker) -> float:
    if worker.start_seconds <= 0:
        raise MeasureFailed("it is not known what the start of a process took")
    return worker.start_seconds
