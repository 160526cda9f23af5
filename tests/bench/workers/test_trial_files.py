"""hasten's own cache is made where it is missing, used where it is ours, and gone if it was not needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hasten.bench.workers.trial_files import TrialFiles
from hasten.inside.sandbox.overlay_folders import remove_layers

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("intruders"),
]


def through(base: Path) -> tuple[str, ...]:
    """What a trial would write as it is."""
    files = TrialFiles([str(base)], {"XDG_CACHE_HOME": str(base / "cache")})
    try:
        return files.sandbox([str(base)], True).through
    finally:
        files.remove()


def test_an_unused_cache_leaves_no_trace(tmp_path: Path) -> None:
    aside, cache = through(tmp_path)
    assert cache == str(tmp_path / "cache" / "hasten")
    assert not Path(aside).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_used_cache_stays(tmp_path: Path) -> None:
    (tmp_path / "cache" / "hasten").mkdir(parents=True)
    (tmp_path / "cache" / "hasten" / "kernel.so").touch()
    assert len(through(tmp_path)) == 2
    assert (tmp_path / "cache" / "hasten" / "kernel.so").exists()


@pytest.mark.parametrize("planted", ["link", "link to nothing", "file", "pipe", "somebody else's"])
def test_a_planted_cache_is_not_written(tmp_path: Path, planted: str) -> None:
    cache = tmp_path / "cache" / "hasten"
    cache.parent.mkdir()
    if planted == "link":
        cache.symlink_to(tmp_path)
    elif planted == "link to nothing":
        cache.symlink_to("/nowhere")
    elif planted == "file":
        cache.touch()
    elif planted == "pipe":
        os.mkfifo(cache)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can make a folder of somebody else's")
        cache.mkdir()
        os.chown(cache, 65534, 65534)
    assert len(through(tmp_path)) == 1


def test_layers_and_what_is_next_to_them_go_together(tmp_path: Path) -> None:
    files = TrialFiles([str(tmp_path)], {"XDG_CACHE_HOME": str(tmp_path)})
    base = os.path.dirname(files.aside)
    Path(files.aside, "state").touch()
    files.remove()
    assert not os.path.exists(base)
    remove_layers(base)


def test_files_that_a_trial_writes_may_lie_on_another_disk(tmp_path: Path) -> None:
    files = TrialFiles([str(tmp_path)], {})
    try:
        there = os.path.dirname(files.aside)
        assert not files.lies_elsewhere(os.path.join(there, "not", "there", "yet"))
        assert files.lies_elsewhere("/proc")
    finally:
        files.remove()
