"""What fails in the background is said once, and costs no more than that checkpoint."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from hasten.inside.checkpoints import store
from hasten.inside.checkpoints.image import Image
from hasten.inside.checkpoints.writing import Background
from hasten.records.run_checkpoints import RunCheckpoints


def image() -> Image:
    return Image({"plain": {}}, [torch.arange(10, dtype=torch.uint8)])


def submitted(background: Background, step: int, journal: bytes) -> None:
    background.submit(step, image(), journal)
    background.wait()


def test_a_full_disk_is_said_once_and_the_next_has_the_whole_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    background = Background(RunCheckpoints(str(tmp_path)), [])

    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", full)
        submitted(background, 10, b"a")
        submitted(background, 20, b"b")
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert store.steps_in(str(tmp_path)) == []
    submitted(background, 30, b"c")
    found = store.read(str(tmp_path), 30)
    segments = [tuple(one) for one in found.header["segments"]]
    assert store.read_segments(str(tmp_path), segments) == b"abc"
    assert bytes(found.body) == bytes(range(10))


def test_what_came_since_the_last_is_kept_beside_it(tmp_path: Path) -> None:
    background = Background(RunCheckpoints(str(tmp_path)), [])
    submitted(background, 10, b"first")
    background.tail(b"se")
    background.tail(b"cond")
    assert store.read_tail(str(tmp_path), 10) == b"second"
    submitted(background, 20, b"third")
    assert store.read_tail(str(tmp_path), 10) == b""
    found = store.read(str(tmp_path), 20)
    segments = [tuple(one) for one in found.header["segments"]]
    assert store.read_segments(str(tmp_path), segments) == b"firstsecondthird"


def test_a_folder_that_is_gone_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    background = Background(RunCheckpoints(str(tmp_path / "gone")), [])
    submitted(background, 10, b"a")
    assert background.lost
    assert "was removed meanwhile" in capsys.readouterr().err
