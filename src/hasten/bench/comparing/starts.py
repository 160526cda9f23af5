"""Plans that differ in how a process starts, compared up to its first training step.

Two fresh processes per pair, one after the other, unlike in ``pairs``: threads that compute in a first step,
or in an evaluation before it, would keep the other process waiting many times as long. Only what is decided
before a process starts is in force: what is switched on with the first step makes no start shorter or longer,
and its set-up, a data set that is filled for example, would take several times as long as the start. Step
times are ignored: no technique that shortens the start acts in steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...records.plan import Plan
from ...records.run_forecast import SeenProcess
from ...records.trial import Proof, Trial
from ..base import process_part
from ..workers.worker import Worker
from .pair import Pair
from .pairs import Enough, MeasureFailed, PairsBench

PARTS = ("start",)


class StartBench(PairsBench):
    """Like ``PairsBench``, for seconds from a script's begin to the end of its first step: hasten's own part
    of the process's start is the same under both. What both plans share may only take effect in steps, so its
    proofs are not checked: these processes train no further.
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
            slower_start=0.0,
        )

    @property
    def steps_needed(self) -> int:
        return 1

    def _pair(self, a: Plan, b: Plan, a_first: bool) -> Pair:
        found = {plan: self._start_of(plan) for plan in ((a, b) if a_first else (b, a))}
        (seen_a, _), (seen_b, all_proofs) = found[a], found[b]
        seconds_a, seconds_b = seen_a.script_start, seen_b.script_start
        return Pair(
            log_ratio=math.log(seconds_b / seconds_a),
            step_seconds_a=seconds_a,
            step_seconds_b=seconds_b,
            sample_seconds_b=seconds_b,
            proofs=tuple(proof for proof in all_proofs if proof.technique not in a.techniques),
            lasting_seconds=0.0,
            setups_seconds=0.0,
            a=seen_a,
            b=seen_b,
        )

    def _start_of(self, plan: Plan) -> tuple[SeenProcess, Sequence[Proof]]:
        """The start of a process that has the machine to itself, and its proofs."""
        with self._trials.worker(process_part(plan)) as worker:
            with self._trials.stopwatch.on("starting"):
                worker.wait_started()
            proofs = worker.proofs()  # which also tell how long its start took
            return _start(worker), proofs


def _start(worker: Worker) -> SeenProcess:
    seen = SeenProcess(worker.start_seconds, 0.0, own_seconds=worker.own_seconds)
    if seen.script_start <= 0:
        raise MeasureFailed("it is not known what the start of a process took")
    return seen
