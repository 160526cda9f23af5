"""Tests that failed are run once more by themselves, and only these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from . import once_more

ROOT = Path(__file__).resolve().parent.parent
FAILS_ONCE = """
from pathlib import Path

def test_passes():
    with open("passed", "a") as file:
        file.write("x")

def test_fails_once():
    seen = Path("seen").exists()
    Path("seen").touch()
    assert seen
"""
NONE_COLLECTED = 2  # pytest's exit code where a file cannot be imported


def test_what_fails_once_is_named_and_passes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILS_ONCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "tests.once_more", "-p", "no:xdist", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].strip() == "test_it.py::test_fails_once"
    assert (tmp_path / "passed").read_text() == "x"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, ...]]]:
    """Makes runs of pytest that end with these codes and failures, and tells what each was asked."""

    def made(*ends: tuple[int, list[str]]) -> list[tuple[str, ...]]:
        left, asked = list(ends), []

        def pytest_run(*arguments: str) -> int:
            asked.append(arguments)
            code, failed = left.pop(0)
            once_more.LASTFAILED.parent.mkdir(parents=True, exist_ok=True)
            once_more.LASTFAILED.write_text(json.dumps(dict.fromkeys(failed, True)))
            return code

        monkeypatch.setattr(once_more, "pytest", pytest_run)
        return asked

    monkeypatch.chdir(tmp_path)
    return made


def test_what_fails_twice_fails(runs: Callable[..., list[tuple[str, ...]]]) -> None:
    asked = runs((1, ["a.py::test"]), (1, ["a.py::test"]))
    assert once_more.main(["-n", "3", "--thorough"]) == 1
    assert asked == [("--cache-clear", "-n", "3", "--thorough"), ("--thorough", "a.py::test")]


def test_of_many_failures_none_is_run_again(runs: Callable[..., list[tuple[str, ...]]]) -> None:
    asked = runs((1, [f"a.py::test_{number}" for number in range(4)]))
    assert once_more.main([]) == 1
    assert len(asked) == 1


@pytest.mark.parametrize(("code", "failed"), [(NONE_COLLECTED, ["a.py"]), (1, ["a.py"]), (0, [])])
def test_what_cannot_be_run_again_is_not(
    runs: Callable[..., list[tuple[str, ...]]], code: int, failed: list[str]
) -> None:
    asked = runs((code, failed))
    assert once_more.main([]) == code
    assert len(asked) == 1
