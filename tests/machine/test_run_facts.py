"""What may slow a run down, from recorded files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.machine.clocks import gigahertz, heat_stops
from hasten.machine.run_facts import run_facts

from .conftest import Record

KIB = 1024
FILES = {
    "proc/self/status": "VmRSS:\t  900 kB\nRssAnon:\t  700 kB\nVmSwap:\t   64 kB\nThreads:\t9\n",
    "proc/meminfo": "MemTotal:       16000 kB\nMemAvailable:    4000 kB\nHugePages_Total:       0\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
    "proc/self/cgroup": "0::/box\n",
    "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2100000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3400000\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
}


def test_a_reading(record: Record) -> None:
    found = run_facts(7, record(FILES))
    assert found.resident_bytes == 700 * KIB
    assert found.swapped_bytes == 64 * KIB
    assert found.available_bytes == 4000 * KIB
    assert found.memory_bytes == 16000 * KIB
    assert found.stalled_seconds == 2.5
    assert found.gigahertz == 3.4
    assert found.heat_stops == 7


def test_a_container_leaves_less(record: Record) -> None:
    limits = {"sys/fs/cgroup/box/memory.max": "2048000\n", "sys/fs/cgroup/box/memory.current": "1024000\n"}
    found = run_facts(7, record({**FILES, **limits}))
    assert found.memory_bytes == 2048000
    assert found.available_bytes == 1024000


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    found = run_facts(7, tmp_path)
    assert found.processors is None
    assert found.cpus >= 1
    told = (found.resident_bytes, found.swapped_bytes, found.stalled_seconds, found.available_bytes)
    assert told == (None,) * 4
    assert (found.memory_bytes, found.gigahertz, found.heat_stops) == (None, None, 0)
    assert gigahertz(tmp_path) is None
    assert heat_stops(tmp_path) == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_this_process_is_read() -> None:
    found = run_facts(os.getpid())
    assert found.resident_bytes is None or found.resident_bytes > 2**20
    assert found.memory_bytes is not None
    assert found.memory_bytes > 2**20
