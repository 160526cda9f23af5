"""Runs that are killed and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from ...patience import PATIENCE_SECONDS

SCRIPT = Path(__file__).parent / "scripts" / "everything.py"


def kept(folder: Path, *more: str, every: str = "7steps", script: Path = SCRIPT) -> list[str]:
    options = ["--no-plan", "--checkpoint", str(folder / "kept"), "--every", every, *more]
    return [sys.executable, "-m", "hasten", "run", *options, str(script)]


def ended(command: list[str], folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert run.returncode == code, run.stderr
    return run


def killed(command: list[str], folder: Path, step: int, number: int = signal.SIGKILL) -> str:
    """Until it has printed that step, and then the signal; returns what it said."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith(f"step {step} "):
                process.send_signal(number)
                break
        process.stdout.read()
        said = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == -number, said
    return said


def continued(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """To its end, from a checkpoint."""
    run = ended(command, folder)
    assert "training goes on" in run.stderr, run.stderr
    return run


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "kept").glob("step-*.checkpoint"))
