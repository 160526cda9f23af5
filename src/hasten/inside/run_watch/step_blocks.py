"""From a run's steps to blocks of them: the time of each kind of step, to compare like with like."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..observing.raw_step import RawStep

Kind = tuple[int, int, int, int, int, int, int]
"""Optimizer, forward and backward passes, samples, size of the batch, evaluations, restarts."""

_LEAST_STEPS = 8  # of a block
_TICK = 1e-9  # seconds, of the clock
_KEPT, _KEPT_ON_GPU = 64, 4096  # consecutive steps of a block: examining more would cost too much
_PASSES = 4  # their number may depend on the data: no more are distinguished
_SIZES = 8  # size classes per doubling: 9% each


@dataclass(frozen=True)
class Block:
    """Consecutive steps. ``seconds`` of the mean step of each kind, and ``counts`` of each; ``phases``:
    seconds of the mean step of the most frequent kind, by phase. ``wall``: seconds of all its ``steps``, with
    everything in them.
    """

    seconds: Mapping[Kind, float]
    counts: Mapping[Kind, int]
    phases: Mapping[str, float]
    wall: float
    steps: int
    set_up: bool = False  # techniques were set up in most of its steps


class Blocks:
    """Collects steps. Does all but a few instructions per step once per block."""

    def __init__(self, seconds: float, on_gpu: Callable[[], bool]) -> None:
        """``seconds``: least duration of a block. ``on_gpu``: a GPU lags behind its launches, so a few steps
        may show nothing.
        """
        self._enough = seconds
        self._on_gpu = on_gpu
        self._kept: list[RawStep] = []
        self._most = _KEPT
        self._steps, self._seconds = 0, 0.0

    def step_ended(self, step: RawStep) -> Block | None:
        """The block, if it is complete."""
        self._steps += 1
        self._seconds += step.seconds
        if self._steps <= self._most:
            self._kept.append(step)
        if self._seconds < self._enough or self._steps < _LEAST_STEPS:
            return None
        return self._take()

    def _take(self) -> Block:
        block = block_of(self._kept, self._seconds, self._steps)
        self._kept, self._most = [], _KEPT_ON_GPU if self._on_gpu() else _KEPT
        self._steps, self._seconds = 0, 0.0
        return block


def block_of(kept: Sequence[RawStep], wall: float, steps: int) -> Block:
    """The mean step of each kind: if others take processor time, most steps are as short as before and some
    much longer. Steps in which techniques were set up do not count.
    """
    plain = [step for step in kept if not step.set_up]
    of_kinds: dict[Kind, list[RawStep]] = {}
    for step in plain or kept:
        of_kinds.setdefault(kind_of(step), []).append(step)
    usual = max(of_kinds.values(), key=len)
    return Block(
        seconds={kind: max(_TICK, fmean(one.seconds for one in found)) for kind, found in of_kinds.items()},
        counts={kind: len(found) for kind, found in of_kinds.items()},
        phases=_phases(usual),
        wall=wall,
        steps=steps,
        set_up=2 * len(plain) < len(kept),
    )


def kind_of(step: RawStep) -> Kind:
    """What steps must share to be compared."""
    size = round(_SIZES * math.log2(step.elements)) if step.elements else step.inputs
    passes = min(step.forwards, _PASSES), min(step.backwards, _PASSES)
    return (step.optimizer, *passes, step.samples, size, step.evaluations, step.restarts)


def _phases(steps: Sequence[RawStep]) -> dict[str, float]:
    """Means; what no seam sees is "other"."""
    told = {
        "data": fmean(step.data for step in steps),
        "forward": fmean(step.forward for step in steps),
        "loss": fmean(step.loss for step in steps),
        "backward": fmean(step.backward for step in steps),
        "optimizer": fmean(step.update for step in steps),
    }
    return {**told, "other": max(0.0, fmean(step.seconds for step in steps) - sum(told.values()))}
