"""How fast the processors run, and how often they had to slow down.

Sources: https://docs.kernel.org/admin-guide/pm/cpufreq.html for scaling_cur_freq; the kernel's
Documentation/ABI/testing/sysfs-devices-system-cpu for thermal_throttle.
"""

from __future__ import annotations

from pathlib import Path

from hasten.machine.probe import number_in, text_of

_CPUS = "sys/devices/system/cpu"
_KILOHERTZ = 1e6  # in a gigahertz


def gigahertz(root: Path = Path("/")) -> float | None:
    """The clock of the fastest CPU now: busy CPUs run at it. None if the kernel does not report it."""
    told = (number_in(text_of(file)) for file in (root / _CPUS).glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    fastest = max((kilohertz for kilohertz in told if kilohertz), default=None)
    return None if fastest is None else fastest / _KILOHERTZ


def heat_stops(root: Path = Path("/")) -> int:
    """How often any core slowed down because it was hot."""
    cores = (root / _CPUS).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    return sum(number_in(text_of(core)) or 0 for core in cores)
