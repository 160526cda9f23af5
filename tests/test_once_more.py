"""Tests that failed are run once more by themselves, and only these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def gate(folder: Path, source: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "tests.once_more", "-p", "no:xdist", "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_what_fails_once_is_named_and_passes(tmp_path: Path) -> None:
    code, said = gate(tmp_path, FAILS_ONCE)
    assert code == 0
    assert said.splitlines()[-1].strip() == "test_it.py::test_fails_once"
    assert (tmp_path / "passed").read_text() == "x"


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    code, said = gate(tmp_path, "def test_broken():\n    assert False\n")
    assert code == 1
    assert said.count("1 failed in") == 2


def test_of_many_failures_none_is_run_again(tmp_path: Path) -> None:
    code, said = gate(tmp_path, "\n".join(f"def test_{n}():\n    assert False\n" for n in range(4)))
    assert (code, said.count("4 failed in"), said.count("Once more")) == (1, 1, 0)


def test_a_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    code, said = gate(tmp_path, "import nothing_of_this_name\n")
    assert code == 2
    assert "Once more" not in said


def test_an_earlier_failure_is_forgotten(tmp_path: Path) -> None:
    gate(tmp_path, "def test_old():\n    assert False\n")
    code, said = gate(tmp_path, FAILS_ONCE)
    assert (code, "test_old" in said) == (0, False)
