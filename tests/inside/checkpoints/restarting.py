"""Runs that are killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ...patience import PATIENCE_SECONDS

SCRIPT = Path(__file__).parent / "scripts" / "everything.py"
EVERY = 7  # steps


def kept(
    folder: Path,
    *more: str,
    every: str = f"{EVERY}steps",
    script: Path = SCRIPT,
    plan: Sequence[str] = ("--no-plan",),
) -> list[str]:
    options = [*plan, "--checkpoint", str(folder / "kept"), "--every", every, *more]
    return [sys.executable, "-m", "hasten", "run", *options, str(script)]


def ended(command: list[str], folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert run.returncode == code, run.stderr
    return run


def killed(
    command: list[str],
    folder: Path,
    step: int,
    number: int = signal.SIGKILL,
    least: int = 1,
    code: int = 0,
    of: str = "",
) -> str:
    """It gets the signal once it has printed that step and has a checkpoint of step ``least`` or later, in
    the folder ``of`` a rank. ``code``: with which it ends, if not by the signal itself.

    Checkpoints are written in the background: where the disk is slow, the script is read slowly, too, and
    has to wait, because the socket that it prints to holds few lines. Returns what it said.
    """
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as few as the system allows
    with (
        ours,
        ours.makefile() as printed,
        subprocess.Popen(
            command, cwd=folder, stdout=theirs.fileno(), stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        theirs.close()
        assert process.stderr is not None
        for line in printed:
            if line.startswith("step "):
                at = int(line.split()[1])
                newest = max((step_of(path) for path in checkpoints(folder, of)), default=0)
                if at >= step and newest >= least:
                    process.send_signal(number)
                    break
                if least and newest < at - 2 * EVERY:
                    time.sleep(0.1)
        printed.read()
        said = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == (code or -number), said
    return said


def continued(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """To its end, from a checkpoint."""
    run = ended(command, folder)
    assert "training goes on" in run.stderr, run.stderr
    return run


def checkpoints(folder: Path, of: str = "") -> list[Path]:
    return sorted((folder / "kept" / of).glob("step-*.checkpoint"))


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.stem[5:])
