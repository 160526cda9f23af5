"""A model of how training steps vary on a shared machine, in plain numpy.

A step's time is the script's own step times exp(what this process adds + what the machine adds at this
moment). It is made to be hard to measure by: processes differ, switch between two speeds, and the machine
drifts under both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP_SECONDS = 0.01  # of the plain script, in its fast state


@dataclass(frozen=True)
class Noise:
    """Of one process's steps. Standard deviations and sizes are of the logarithm of a step's time.

    The defaults are a process with glibc's allocation thresholds raised, a steady one. Where they come from:

    - ``process_sd``: two processes differed by 3.6% (sd of the log ratio), six of one script took 13.3 to
      14.7 ms a step, which is 4% a process, drift included. The larger reading is taken.
    - ``step_sd``, ``correlation``: in one process, nothing changed, 20 ABBA blocks of 4 x 8 steps gave
      intervals of +-0.5%, so that one block's time varies by 1.1%. Steps correlated by 0.5 vary by 2% then.
    - ``spike_share``, ``spike_size``: other work of a shared machine; chosen, not measured.
    - ``cold``: the first step after a process was stopped; chosen, since it is never timed.
    """

    process_sd: float = 0.036
    process_tails: int | None = None  # degrees of freedom of Student's distribution; None: normal
    step_sd: float = 0.02
    correlation: float = 0.5  # of one step with the next
    spike_share: float = 0.01  # of steps
    spike_size: float = 0.7  # mean, exponential
    cold: float = 0.3
    slow_by: float = 0.0  # the slow state against the fast one
    to_slow: float = 0.0  # probability to switch at a step
    to_fast: float = 1.0

    @property
    def slow_share(self) -> float:
        """Of a process's steps, in the long run."""
        return self.to_slow / (self.to_slow + self.to_fast)


STEADY = Noise()

# glibc's own thresholds. Of one script, steps took 14 to 22 ms, in two states; whole processes differed by
# as much, and within one, 20 ABBA blocks gave 0.99 to 1.05 with intervals up to +-10%. States
# that last 100 steps do both.
TWO_STATES = Noise(
    process_sd=0.05, process_tails=4, slow_by=math.log(22 / 14), to_slow=1 / 100, to_fast=1 / 100
)

# The same, but rarely slow: one process in thirty is. The confirmations of the shipped example had log
# ratios that varied by 7.5 and 9.7% from pair to pair (from the intervals in README.md); this gives that
# size, in the shape that is hardest on an interval.
SELDOM_SLOW = Noise(slow_by=math.log(22 / 14), to_slow=1 / 3000, to_fast=1 / 100)

# Worse than anything that was seen: one process in ten is slow.
ONE_IN_TEN_SLOW = Noise(slow_by=math.log(22 / 14), to_slow=1 / 900, to_fast=1 / 100)

# Worse still: more of them, and slower ones than a claim allows for.
ONE_IN_FIVE_SLOW = Noise(slow_by=math.log(22 / 14), to_slow=1 / 400, to_fast=1 / 100)
ONE_IN_TEN_TWICE_AS_SLOW = Noise(slow_by=math.log(2), to_slow=1 / 900, to_fast=1 / 100)

# The machine's own speed, as a random walk a step: epochs of 3.5 s in one process differed by 3 to 4%
# (benchmarks/results, fashion_cnn).
DRIFT_SD = 0.002


def own_part(
    noise: Noise, shape: tuple[int, ...], steps: int, first_after_stop: list[int], source: np.random.Generator
) -> Floats:
    """Logarithms of what processes add to each of their steps: of the given shape, and steps last."""
    if noise.process_tails is None:
        process = noise.process_sd * source.standard_normal(shape)
    else:
        tails = noise.process_tails
        scale = noise.process_sd * math.sqrt((tails - 2) / tails)
        process = scale * source.standard_t(tails, shape)
    spikes = source.random((*shape, steps)) < noise.spike_share
    found = np.where(spikes, source.exponential(noise.spike_size, (*shape, steps)), 0.0)
    innovation = noise.step_sd * math.sqrt(1 - noise.correlation**2)
    wave = noise.step_sd * source.standard_normal(shape)
    slow = source.random(shape) < noise.slow_share
    for number in range(steps):
        found[..., number] += process + wave + noise.slow_by * slow
        wave = noise.correlation * wave + innovation * source.standard_normal(shape)
        switches = source.random(shape)
        slow = np.where(slow, switches >= noise.to_fast, switches < noise.to_slow)
    found[..., first_after_stop] += noise.cold
    return found


def machine_part(shape: tuple[int, ...], steps: int, source: np.random.Generator) -> Floats:
    """Logarithms of what the machine adds at each step that any process trains, in order of time."""
    walk: Floats = np.cumsum(DRIFT_SD * source.standard_normal((*shape, steps)), axis=-1)
    return walk
