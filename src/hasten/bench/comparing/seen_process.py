"""What one process of a pair shows about a whole run, in addition to the pair's ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ...records.observation import Step
from ...records.phases import usual_samples, usual_wait
from ...records.run_forecast import SeenProcess
from ...records.trial import Proof
from ..workers.worker import Worker
from .blocks import Block
from .steps import Rhythm, regular_steps

_SPIKE = 10  # times a usual step
_ENOUGH = 40  # steps, in which what recurs would have come more than once


@dataclass(frozen=True)
class Once:
    """Seconds beyond a ``usual`` step; ``each``: spread over all steps that were timed."""

    seconds: float = 0.0
    each: float = 0.0
    usual: float = 0.0


def seconds_once(steps: Sequence[Step]) -> Once:
    """What came once among these steps and took many times a usual one. It counts once in a run: large
    libraries leave so many objects that Python's first full collection takes a third of a second, soon after
    the training's start, and the next one is far. What recurs comes several times in as many steps.
    """
    times = [step.seconds - step.setup_seconds for step in steps]
    usual = median(times) if times else 0.0
    spikes = [seconds for seconds in times if seconds > _SPIKE * usual]
    if len(spikes) != 1 or not usual or len(times) < _ENOUGH:
        return Once()
    return Once(spikes[0] - usual, (spikes[0] - usual) / len(times), usual)


def seen_process(
    worker: Worker, proofs: Sequence[Proof], blocks: Sequence[Block], settled: int, rhythm: Rhythm
) -> SeenProcess:
    """``settled``: its steps before the first timed one. Ignores blocks with too few regular steps, and
    set-up that lasts, which no other process pays again.
    """
    means = [block.mean_seconds for block in blocks if block.mean_seconds > 0]
    mean = fmean(means) if means else 0.0
    uneven = fmean(block.uneven for block in blocks) if blocks else 1.0
    once = seconds_once(regular_steps(worker.history[settled:], rhythm))
    even = max(mean - once.each, min(mean, once.usual))  # it may have come in a step that was not timed
    lead = regular_steps(worker.history[1:settled], rhythm)  # the very first belongs to the start
    return SeenProcess(
        start_seconds=worker.start_seconds,
        own_seconds=worker.own_seconds,
        step_seconds=even,
        setup_seconds=max(0.0, worker.setup_seconds - sum(proof.paid_seconds for proof in proofs)),
        lead_seconds=sum(step.seconds - step.setup_seconds - even for step in lead) + once.seconds,
        uneven=uneven * even / mean if mean else uneven,
        steps=len(worker.history),
        samples=usual_samples(worker.history, rhythm.cycle),
        data_seconds=usual_wait(worker.history),
        shared_seconds=sum(proof.shared_seconds for proof in proofs),
    )
