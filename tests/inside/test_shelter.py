"""What a worker does first, where the kernel is another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hasten.inside import mounts, shelter
from hasten.inside.job import Shield


def test_on_another_system_nothing_of_linux_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("there is no /proc here")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(mounts, "is_admin", fail)
    monkeypatch.setattr(shelter, "contain", fail)
    protection, _ = shelter._protected(Shield((str(tmp_path),), ""))
    assert (protection.kind, protection.reason) == ("off", "files can be protected on Linux only")
