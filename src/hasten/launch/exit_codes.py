"""How a process ended, as text."""

from __future__ import annotations

import signal

WAITED = 75  # of a rank that waited for others in vain


def how_it_ended(code: int, killed_for_memory: bool = False) -> str:
    """``code``: as from subprocess, negative for a signal. ``killed_for_memory``: the kernel counts
    processes killed for lack of memory, and the count grew since the start.
    """
    if code == WAITED:
        return "waited for another in vain"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    if -code == signal.SIGKILL:
        hint = (
            ": the machine or its container ran out of memory" if killed_for_memory else " (out of memory?)"
        )
        return f"was killed by {name}{hint}"
    if -code == signal.SIGBUS:
        return f"was killed by {name} (is /dev/shm full? docker run --shm-size=1g makes it larger)"
    return f"was killed by {name}"
