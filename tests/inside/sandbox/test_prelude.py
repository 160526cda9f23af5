"""What is kept of an upper for later workers, and what that costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hasten.inside.sandbox import prelude
from hasten.inside.sandbox.overlay_folders import remove_layers
from hasten.inside.sandbox.prelude import keep

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="overlays are Linux's"),
    pytest.mark.attack("files"),
]


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    (tmp_path / "upper" / "inner").mkdir(parents=True)
    (tmp_path / "upper" / "inner" / "small").write_bytes(b"s" * 100)
    (tmp_path / "upper" / "large").write_bytes(b"l" * 10_000)
    return tmp_path / "upper"


def test_what_is_written_later_is_not_in_the_copy(upper: Path, tmp_path: Path) -> None:
    keep(str(upper), str(tmp_path / "kept"))
    (upper / "large").write_bytes(b"new")
    (upper / "inner" / "later").touch()
    assert (tmp_path / "kept" / "large").read_bytes() == b"l" * 10_000
    assert os.listdir(tmp_path / "kept" / "inner") == ["small"]


def test_of_much_the_large_files_are_linked(
    upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prelude, "_LARGE_BYTES", 1000)
    keep(str(upper), str(tmp_path / "kept"), most_bytes=5000)
    assert os.path.samefile(upper / "large", tmp_path / "kept" / "large")
    assert not os.path.samefile(upper / "inner" / "small", tmp_path / "kept" / "inner" / "small")


def test_links_lead_where_they_led(upper: Path, tmp_path: Path) -> None:
    (upper / "link").symlink_to("/etc")
    (upper / "loop").symlink_to("loop")
    keep(str(upper), str(tmp_path / "kept"))
    assert os.readlink(tmp_path / "kept" / "link") == "/etc"
    assert os.readlink(tmp_path / "kept" / "loop") == "loop"


@pytest.mark.parametrize("kind", ["pipe", "deep"])
def test_what_cannot_be_kept_is_left_out(upper: Path, tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(upper / "pipe")
    else:  # deeper than a path is long
        here = os.open(upper, os.O_RDONLY)
        for _ in range(2500):
            os.mkdir("ab", dir_fd=here)
            inner = os.open("ab", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        os.close(here)
    kept = tmp_path / "kept"
    keep(str(upper), str(kept))
    assert (kept / "inner" / "small").exists()
    assert not (kept / "pipe").exists()
    for deep in (upper, kept):  # pytest recurses, and would fail at its own end
        remove_layers(str(deep))
        assert not deep.exists()


def test_modes_and_times_are_kept(upper: Path, tmp_path: Path) -> None:
    (upper / "large").chmod(0o440)
    (upper / "inner").chmod(0o500)
    os.utime(upper / "inner", (5, 5))
    keep(str(upper), str(tmp_path / "kept"))
    assert (tmp_path / "kept" / "large").stat().st_mode & 0o777 == 0o440
    found = (tmp_path / "kept" / "inner").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o500, 5)
