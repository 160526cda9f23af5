"""What hasten takes for itself is measured, or not known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hasten.tuning.own_start import own_start


def test_it_is_measured_by_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "of/the/users")  # stays as it is, and shadows nothing
    seconds = own_start()
    assert seconds is not None
    assert seconds > 0.05  # it imports its own modules
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_where_it_cannot_be_run_it_is_not_known(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python)
    assert own_start() is None
