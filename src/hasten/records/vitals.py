"""Counters of the machine, read before and after something was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vitals:
    """One reading. Counters only grow; what this system does not report is 0, and so is every difference."""

    busy_ticks: int = 0  # of all cores since boot, time stolen by a hypervisor included
    all_ticks: int = 0
    quota_periods: int = 0  # in which the container's CPU quota was in force
    quota_stops: int = 0  # periods in which it stopped us
    swapped_pages: int = 0  # moved to and from swap
    heat_stops: int = 0  # times a core slowed down because it was hot
    gpu_clocks: tuple[int, ...] = ()  # MHz, of each GPU
