"""Whether a plan is so slow in its first steps that no block need be timed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ...records.observation import Step
from ..workers.worker import Worker
from .abba_blocks import HOPELESS
from .steps import Rhythm

_LOOKED_AT = 5  # steps: those before may compile
SECOND_LOOK = 5  # steps


def hopeless(a: Worker, b: Worker, rhythm: Rhythm, spare: bool) -> str:
    """Why b need not be timed against a; "" if it must be. Both are stopped after their first steps.

    If a process loses its processors for a moment, several steps of a fraction of a millisecond may all take
    hundreds of times as long. So b gets a second look, if the script has steps to ``spare`` for it.
    """
    if rhythm.cycle > 1:
        return ""
    usual, seen = a.history[_LOOKED_AT:], b.history[_LOOKED_AT:]
    if spare and _times_slower(usual, seen):
        b.resume()
        seen = b.steps(SECOND_LOOK)
        b.pause()
    times = _times_slower(usual, seen)
    return f"about {times:.0f} times slower: its first steps were enough to see it" if times else ""


def _times_slower(a: Sequence[Step], b: Sequence[Step]) -> float:
    """b's fastest step over a's usual one; 0 if b may still win."""
    if not a or not b:
        return 0.0
    times = min(step.seconds for step in b) / max(1e-9, median(step.seconds for step in a))
    return times if times > HOPELESS else 0.0
