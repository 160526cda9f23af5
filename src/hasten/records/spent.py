"""Where the time of a trial went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """Seconds. ``starting``: until workers had done their first step, which includes torch's import and the
    script's own preparations. ``settling``: steps that are not timed, and techniques' set-up.
    ``waiting``: for other programs, and for blocks that they spoilt.
    """

    rehearsing: float = 0.0
    starting: float = 0.0
    settling: float = 0.0
    timing: float = 0.0
    waiting: float = 0.0
    rest: float = 0.0
