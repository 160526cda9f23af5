"""Waiting for a pipe, whatever its number: ``select.select`` takes no descriptor from 1,024 on."""

from __future__ import annotations

import math
import select


def readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read from it, or its end, within so many seconds."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(math.ceil(1000 * max(0.0, seconds))))
