"""Standard streams that are closed or full, and a working directory that is gone: one line, or none."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..patience import PATIENCE_SECONDS

HASTEN = f"{shlex.quote(sys.executable)} -m hasten.cli.main"
FULL = "hasten: the result could not be written to standard output: No space left on device\n"
CLOSED = "hasten: the result could not be written to standard output: it is closed\n"
NEED_FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def typed(words: str, folder: Path, unbuffered: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(
        ["sh", "-c", f"{HASTEN} {words}"], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


def exhausted(words: str, folder: Path, unbuffered: str = "") -> tuple[int, str]:
    done = typed(words, folder, unbuffered)
    assert done.stdout == ""
    return done.returncode, done.stderr


REPORTS = ["doctor", "techniques", "--help", "run --help", "--version"]


@NEED_FULL
@pytest.mark.attack("together")
@pytest.mark.parametrize("words", REPORTS)
def test_standard_output_is_full(words: str, tmp_path: Path) -> None:
    assert exhausted(f"{words} > /dev/full", tmp_path) == (1, FULL)


@NEED_FULL
@pytest.mark.attack("together")
@pytest.mark.parametrize("words", ["doctor", "--help"])
def test_standard_output_is_full_and_not_buffered(words: str, tmp_path: Path) -> None:
    assert exhausted(f"{words} > /dev/full", tmp_path, unbuffered="1") == (1, FULL)


@pytest.mark.attack("together")
@pytest.mark.parametrize("words", REPORTS)
def test_standard_output_is_closed(words: str, tmp_path: Path) -> None:
    assert exhausted(f"{words} >&-", tmp_path) == (1, CLOSED)


@NEED_FULL
@pytest.mark.attack("together")
@pytest.mark.parametrize("end", ["2> /dev/full", "2>&-"])
@pytest.mark.parametrize(("words", "code"), [("doctor", 0), ("run no.py", 2), ("", 2)])
def test_an_error_without_a_stream_to_report_it(words: str, code: int, end: str, tmp_path: Path) -> None:
    """Then the exit code still says it."""
    done = typed(f"{words} {end}", tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.attack("together")
def test_no_stream_at_all(tmp_path: Path) -> None:
    done = typed("doctor --json found.json <&- >&- 2>&-", tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "found.json").read_text().startswith("{")  # what can be kept is kept


@pytest.mark.attack("together")
def test_a_closed_stream_does_not_lend_its_number_to_a_file_of_ours(tmp_path: Path) -> None:
    """A script that prints would write into it; and the script finds closed what is closed without us."""
    script = (
        "import os\ntry:\n    os.write(1, b'x')\nexcept OSError as error:\n    raise SystemExit(error.errno)"
    )
    (tmp_path / "train.py").write_text(script)
    assert typed("run --no-plan train.py >&-", tmp_path).returncode == 9


@pytest.mark.attack("messages")
def test_a_name_that_the_terminal_cannot_show_is_spelled_out(tmp_path: Path) -> None:
    done = typed("run gr\u00f6\u00dfer.py 2>&1", tmp_path)
    assert done.stdout.startswith("hasten: there is no script at größer.py")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "\u00df"}
    told = subprocess.run(
        [sys.executable, "-m", "hasten.cli.main", "doctor"], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    assert r"OMP_NUM_THREADS=\xdf" in told.stdout


@pytest.mark.attack("together")
@pytest.mark.parametrize(
    "words",
    ["doctor", "techniques", "run x.py", "tune x.py", "profile x.py", "verify x.py", "demo", "run -m x"],
)
def test_the_working_directory_is_gone(words: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"cd {shlex.quote(str(gone))}; rmdir ../gone; {HASTEN} {words}"],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hasten: the working directory was deleted: change into one that exists\n"
