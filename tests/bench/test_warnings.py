"""What may spoil a measurement, told from a recorded /proc/stat."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hasten.bench.warnings import machine_busy

# user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks since boot
BEFORE = "cpu  2165 25 1029 90210 310 0 44 7 100 0\ncpu0 1080 12 500 45000 150 0 20 3 50 0\nintr 1\n"


def after(busy: int, idle: int, waiting: int = 0, stolen: int = 0) -> str:
    return f"cpu  {2165 + busy} 25 1029 {90210 + idle} {310 + waiting} 0 44 {7 + stolen} 900 0\nintr 2\n"


def warning_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str) -> str | None:
    """What is said when the kernel's counters have become ``second`` while we watched."""
    stat = tmp_path / "proc/stat"
    stat.parent.mkdir()
    stat.write_text(BEFORE)
    monkeypatch.setattr(time, "sleep", lambda _: stat.write_text(second))
    return machine_busy(tmp_path)


def test_a_quiet_machine_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warning_when(tmp_path, monkeypatch, after(busy=19, idle=81)) is None


def test_a_busy_machine_is_told_with_its_share_and_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = warning_when(tmp_path, monkeypatch, after(busy=42, idle=58))
    assert warning is not None
    assert "42%" in warning
    assert "tune when the machine is quiet" in warning


def test_waiting_for_a_disk_leaves_the_cores_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warning_when(tmp_path, monkeypatch, after(busy=5, idle=5, waiting=90)) is None


def test_what_a_hypervisor_takes_away_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warning = warning_when(tmp_path, monkeypatch, after(busy=0, idle=50, stolen=50))
    assert warning is not None
    assert "50%" in warning


def test_counters_that_stand_still_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warning_when(tmp_path, monkeypatch, BEFORE) is None


def test_a_system_without_such_a_file_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert machine_busy(tmp_path) is None
