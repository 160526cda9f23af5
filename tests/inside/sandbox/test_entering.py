"""What a worker does first, where the kernel is another."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from hasten.inside.job import Sandbox
from hasten.inside.sandbox import entering, mounts
from hasten.inside.sandbox.protect import Protection


def test_on_another_system_nothing_of_linux_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("there is no /proc here")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(mounts, "is_admin", fail)
    monkeypatch.setattr(entering, "contain", fail)
    protection, _ = entering._protected(Sandbox((str(tmp_path),), ""))
    assert (protection.kind, protection.reason) == ("off", "files can be protected on Linux only")


@pytest.mark.attack("files")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux")
@pytest.mark.parametrize(("kind", "aside"), [("overlay", False), ("landlock", True), ("off", True)])
def test_without_overlays_temporary_files_lie_where_they_go_with_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, aside: bool
) -> None:
    """Compilers and loaders that are killed leave some."""
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(entering, "contain", lambda: "")
    monkeypatch.setattr(mounts, "is_admin", lambda: True)
    monkeypatch.setattr(entering, "protect", lambda *_, **__: Protection(kind, "", (), {}))
    entering._protected(Sandbox((str(tmp_path),), "", aside=str(tmp_path), required=False))
    assert os.environ["TMPDIR"] == (str(tmp_path / "temporary") if aside else "/elsewhere")


@pytest.mark.attack("signals")
def test_what_was_cleared_away_is_not_made_again(tmp_path: Path) -> None:
    """A worker may be on its way still when the coordinator was killed, and its folder is gone."""
    entering._keep_temporary_files_in(str(tmp_path / "gone" / "aside" / "temporary"))
    assert list(tmp_path.iterdir()) == []
