"""What may spoil a measurement: a closed list, each with advice."""

from __future__ import annotations

import os

_BUSY_SHARE = 0.5


def machine_busy(usable_cpus: int) -> str | None:
    """Whether others keep this machine busy; asked before our own work begins. None where it is quiet."""
    load = os.getloadavg()[0]
    if load < _BUSY_SHARE * usable_cpus:
        return None
    return (
        f"other programs keep {load:.1f} of {usable_cpus} cores busy: intervals will be wide. "
        "Stop them, or tune when the machine is quiet."
    )
