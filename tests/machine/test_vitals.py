"""The machine's counters, from recorded trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.machine import vitals as module
from hasten.machine.vitals import killed_for_memory, vitals
from hasten.records.vitals import Vitals

from .conftest import Record

FILES = {
    # user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks since boot
    "proc/stat": "cpu  2165 25 1029 90210 310 0 44 7 100 0\ncpu0 1080 12 500 45000 150 0 20 3 50 0\nintr 1\n",
    "proc/vmstat": "nr_free_pages 5\npswpin 120\npswpout 30\n",
    "proc/self/cgroup": "0::/box\n",
    "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/box/cpu.stat": "usage_usec 900\nnr_periods 400\nnr_throttled 21\nthrottled_usec 5\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
}


def test_a_reading(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    busy = 2165 + 25 + 1029 + 44 + 7
    assert vitals(tmp_path) == Vitals(busy, busy + 90210 + 310, 400, 21, 150, 7)


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    assert vitals(tmp_path) == Vitals()


def test_gpus_are_asked_only_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "output_of", lambda *_: "1980\n1755\n")
    assert vitals(tmp_path, gpus=True).gpu_clocks == (1980, 1755)
    assert vitals(tmp_path).gpu_clocks == ()


def test_processes_killed_for_memory_are_counted_in_all_groups(record: Record) -> None:
    limited = "sys/fs/cgroup/job"
    root = record(
        {
            "proc/vmstat": "nr_free_pages 7\noom_kill 2\n",
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            f"{limited}/memory.events": "low 0\noom 3\noom_kill 1\n",
        }
    )
    assert killed_for_memory(root) == 3


def test_where_nothing_is_counted_it_is_none(record: Record) -> None:
    assert killed_for_memory(record({})) == 0
