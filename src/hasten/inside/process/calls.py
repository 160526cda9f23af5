"""Which calls are running."""

from __future__ import annotations

from types import FrameType


def is_within(frame: FrameType | None, outer: FrameType) -> bool:
    """Whether ``frame`` is ``outer``, or called from within it."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is not None
