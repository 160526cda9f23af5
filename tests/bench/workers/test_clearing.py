"""A command that is killed leaves no temporary folder, wherever it is then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ...cli.conftest import wait_until

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="layers are for Linux"),
    pytest.mark.attack("signals"),
]

BEGINS = """
import os, signal, sys
from hasten.bench.workers import trial_files
from hasten.inside.sandbox import overlay_folders

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{where}
made = trial_files.TrialFiles([], os.environ)
open(os.path.join(made.aside, "file"), "w").close()
kill()
"""


@pytest.mark.parametrize(
    "where",
    [
        "",
        "overlay_folders._can_hold_layers = kill",
        "overlay_folders._locked = kill",
        "trial_files.os.mkdir = kill",
    ],
    ids=["with files in it", "when it is made", "before it is locked", "before it is made"],
)
def test_killed_anywhere_its_folder_goes(tmp_path: Path, where: str) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.run([sys.executable, "-c", BEGINS.format(where=where)], env=environment)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: list(tmp_path.iterdir()) == [])
