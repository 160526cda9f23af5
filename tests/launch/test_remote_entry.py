"""The far end of ssh: what is started there, and that it ends when we are gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hasten.launch.engines.ssh import REMOTE_ENTRY

from ..patience import PATIENCE_SECONDS
from ..processes import started_with


def line(folder: Path, *argv: str, **environment: str) -> str:
    return f"{json.dumps({'folder': str(folder), 'argv': argv, 'environment': environment})}\n"


def run(told: str) -> subprocess.CompletedProcess[str]:
    """With the end of standard input behind what is told."""
    return subprocess.run(
        [sys.executable, str(REMOTE_ENTRY)],
        input=told,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_words_folder_and_environment_come_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "it's; $(id)\n x"
    folder.mkdir()
    tells = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['TOLD'], sys.argv[1:]]))"
    with subprocess.Popen(
        [sys.executable, str(REMOTE_ENTRY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line(folder, sys.executable, "-c", tells, "a b", "$(id)\n", TOLD="x;'\n"))
        process.stdin.flush()
        assert json.loads(process.stdout.read()) == [str(folder), "x;'\n", ["a b", "$(id)\n"]]
        assert process.wait(PATIENCE_SECONDS) == 0


def test_what_is_started_ends_when_we_are_gone(tmp_path: Path) -> None:
    mark = tmp_path.name + str(id(tmp_path))
    done = run(line(tmp_path, sys.executable, "-c", "import time; time.sleep(600)", FAR_END=mark))
    assert done.returncode == 128 + 15
    assert started_with("FAR_END", mark) == []


def test_a_folder_that_is_missing_there_is_told(tmp_path: Path) -> None:
    done = run(line(tmp_path / "missing", "true"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "missing'. Every host needs hasten and the script's folder at the same places" in done.stderr


def test_a_program_that_is_missing_there_is_told(tmp_path: Path) -> None:
    done = run(line(tmp_path, "/no/such/python"))
    assert done.returncode == 2
    assert "No such file or directory: '/no/such/python'" in done.stderr
