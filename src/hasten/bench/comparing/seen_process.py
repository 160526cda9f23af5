"""What one process of a pair shows about a whole run, in addition to the pair's ratio."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ...records.phases import usual_samples, usual_wait
from ...records.run_forecast import SeenProcess
from ...records.trial import Proof
from ..workers.worker import Worker
from .steps import Block, Rhythm, regular_steps


def seen_process(
    worker: Worker, proofs: Sequence[Proof], blocks: Sequence[Block], settled: int, rhythm: Rhythm
) -> SeenProcess:
    """``settled``: its steps before the first timed one. Ignores blocks with too few regular steps, and
    set-up that lasts, which no other process pays again.
    """
    means = [block.mean_seconds for block in blocks if block.mean_seconds > 0]
    mean = fmean(means) if means else 0.0
    lead = regular_steps(worker.history[1:settled], rhythm)  # the very first belongs to the start
    return SeenProcess(
        start_seconds=worker.start_seconds,
        step_seconds=mean,
        setup_seconds=max(0.0, worker.setup_seconds - sum(proof.paid_seconds for proof in proofs)),
        lead_seconds=sum(step.seconds - step.setup_seconds - mean for step in lead),
        uneven=fmean(block.uneven for block in blocks) if blocks else 1.0,
        steps=len(worker.history),
        samples=usual_samples(worker.history, rhythm.cycle),
        data_seconds=usual_wait(worker.history),
    )
