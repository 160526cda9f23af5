"""A reading of what used the processors, before and after something was timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessorTime:
    """All in seconds. Values only grow, except that ``own`` loses processes that were not waited for."""

    at: float  # on any one clock
    busy: float  # of the CPUs that we may use, by any process; time stolen by a hypervisor included
    own: float  # of this process and all below it
    stolen: float = 0.0  # part of ``busy``: stolen by a hypervisor
    throttled: float = 0.0  # time the control group's quota stopped us
