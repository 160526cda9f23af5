"""What compiling the ranks' kernel leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"),
    pytest.mark.attack("files"),
]

LOAD = "from hasten.inside.distributed.backends.kernel import kernel; print(kernel() is not None)"


def load(home: Path, temporary: Path, **more: str) -> str:
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary), **more}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    made = tmp_path / "temporary"
    made.mkdir()
    return made


def test_it_is_kept_in_the_users_cache_alone(tmp_path: Path, temporary: Path) -> None:
    assert load(tmp_path, temporary) == "True\n"
    (kept,) = (tmp_path / ".cache" / "hasten").iterdir()
    assert kept.suffix == ".so"
    assert list(temporary.iterdir()) == []


def test_without_a_home_to_write_to_nothing_is_left_of_it(tmp_path: Path, temporary: Path) -> None:
    home = tmp_path / "home"
    home.write_text("no folder")
    assert load(home, temporary) == "True\n"
    assert list(temporary.iterdir()) == []


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ntouch "$TMPDIR/cc1.s"\nexit 1\n')
    compiler.chmod(0o755)
    assert load(tmp_path, temporary, CC=str(compiler)) == "False\n"
    assert list(temporary.iterdir()) == []
    assert list((tmp_path / ".cache" / "hasten").iterdir()) == []
