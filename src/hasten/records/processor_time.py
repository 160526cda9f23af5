"""A reading of who used the processors, before and after something was timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessorTime:
    """All in seconds, and growing but for what ``own`` loses with processes that nobody waited for."""

    at: float  # of some clock
    busy: float  # of the CPUs that we may use, by anybody; what a hypervisor took away included
    own: float  # of this process and all below it
    stolen: float = 0.0  # of ``busy``: what a hypervisor took away
    throttled: float = 0.0  # for which the control group's quota stopped us
