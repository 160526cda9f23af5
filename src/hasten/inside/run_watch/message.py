"""The line that reports slower steps."""

from __future__ import annotations

from collections.abc import Sequence

from ...units import seconds_words
from .rules import Slower

_MOST_CAUSES = 3


def slower_words(found: Slower, causes: Sequence[str], where: str) -> str:
    """``causes`` that were seen; ``where``: the part of a step that mainly became longer, or
    "".
    """
    since = "when the plan was tuned" if found.than_tuned else "earlier in this run"
    now, then = seconds_words(found.seconds), seconds_words(found.before)
    ever = ", and ever longer" if found.growing else ""
    text = f"steps take {found.times:.2f} times as long as {since} ({then} then, {now} now){ever}"
    why = ", and ".join(causes[:_MOST_CAUSES]) or "no cause was seen"
    place = f"; what takes longer is {where}" if where else ""
    return f"{text}: {why}{place}"
