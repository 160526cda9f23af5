"""What becomes of a verb's end: an exit code, and at most one message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..patience import PATIENCE_SECONDS

HEAD = """
import sys
from hasten.cli import run
from hasten.cli.main import main
from hasten.errors import PlanError, Refusal, WorkerError
from hasten.report.machine_readable import write_json

def execute(arguments):
    {body}

run.execute = execute
sys.exit(main({words}))
"""


def ended(body: str, words: tuple[str, ...] = ("run", "train.py")) -> subprocess.CompletedProcess[str]:
    """How ``hasten`` ends where the verb does ``body``."""
    code = HEAD.format(body=body, words=list(words))
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_the_verbs_exit_code_is_ours() -> None:
    done = ended("return 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


@pytest.mark.parametrize(("error", "code"), [("PlanError", 2), ("Refusal", 3), ("WorkerError", 4)])
def test_an_error_for_the_user_is_one_message(error: str, code: int) -> None:
    done = ended(f"raise {error}('what to do')")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "hasten: what to do\n")


def test_debug_shows_where_it_was_raised() -> None:
    done = ended("raise Refusal('what to do')", ("run", "--debug", "train.py"))
    assert done.returncode != 0
    assert "in execute\n" in done.stderr
    assert done.stderr.endswith("hasten.errors.Refusal: what to do\n")


def test_an_error_of_our_own_is_not_hidden() -> None:
    done = ended("{}['key']")
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'key'\n")


def test_ctrl_c() -> None:
    done = ended("raise KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr.startswith("hasten: interrupted")
    assert done.stderr.count("\n") == 1


def test_sigterm_unwinds() -> None:
    """So that workers and layers are taken down."""
    done = ended(
        """
    import os, signal
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        print("taken down")"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, "taken down\n", "")


@pytest.mark.parametrize(
    "body",
    ["print('x' * 10**6); return 0", "write_json({'x': 1}, '-'); return 0"],
    ids=["a long report", "a short result"],
)
def test_a_reader_that_has_gone_is_no_catastrophe(body: str) -> None:
    """As in ``hasten ... | head -1``."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-c", HEAD.format(body=body, words=["run", "train.py"])]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open(write_end, "wb") as gone:
        done = subprocess.run(
            command, env=buffered, stdout=gone, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.attack("messages")
def test_a_full_disk_is_one_line() -> None:
    done = ended("import errno; raise OSError(errno.ENOSPC, 'No space left on device', '/x/y')")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hasten: the disk is full (/x/y): make room and run again\n"


@pytest.mark.attack("messages")
def test_an_interruption_says_of_what_where_it_knows() -> None:
    done = ended("raise KeyboardInterrupt('the rehearsal was interrupted')")
    assert done.returncode == 130
    assert done.stderr == "hasten: the rehearsal was interrupted\n"


def test_python_m_hasten_is_the_command(tmp_path: Path) -> None:
    """Also where the working directory has a module of a name that the command imports."""
    (tmp_path / "click.py").write_text("raise SystemExit('the user's own')")
    done = subprocess.run(
        [sys.executable, "-m", "hasten", "--version"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("hasten ")
