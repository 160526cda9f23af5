"""Commands typed at the hosts of this folder's tests, and waiting for what they do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from .hosts import Hosts

TRAINING = Path(__file__).with_name("training.py")
PATIENCE_SECONDS = 300


@dataclass
class Cluster:
    """``folder`` is the working directory on all hosts."""

    hosts: Hosts
    folder: Path
    environment: dict[str, str]

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def need(self, program: str) -> None:
        """Skips the test where there is none."""
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here: as root, sh tests/machines/install.sh")

    @property
    def training(self) -> str:
        """A script that is distributed itself, in the folder."""
        shutil.copy(TRAINING, self.folder / "train.py")
        return "train.py"

    def told(self, out: str) -> list[dict[str, object]]:
        """What each rank of the training left, by its number."""
        found = sorted(self.folder.glob(f"{out}-*.json"))
        return [json.loads(path.read_text()) for path in found]

    def run(self, *argv: str, host: str = "h1") -> subprocess.CompletedProcess[str]:
        """A command, typed at that host."""
        return self.start(*argv, host=host).ended()

    entry = (sys.executable, "-m", "hasten.cli.main")

    def hasten(self, *words: str, host: str = "h1") -> subprocess.CompletedProcess[str]:
        return self.run(*self.entry, *words, host=host)

    def start_hasten(self, *words: str, host: str = "h1") -> Running:
        return self.start(*self.entry, *words, host=host)

    def start(self, *argv: str, host: str = "h1") -> Running:
        return Running(
            subprocess.Popen(
                self.hosts.start(host, *argv),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )


@dataclass
class Running:
    process: subprocess.Popen[str]

    def ended(self) -> subprocess.CompletedProcess[str]:
        """When it has ended by itself."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"it did not end within {PATIENCE_SECONDS} s:\n{out}\n{err}") from None
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


def until(happened: Callable[[], bool]) -> None:
    """Return once it has; what never does fails the test."""
    ends_by = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < ends_by, "it has not happened"
        time.sleep(0.05)


def environment_of(hosts: Hosts, home: Path) -> dict[str, str]:
    """What a person has there who types."""
    return {
        "PATH": f"{hosts.folder}:{os.environ['PATH']}",
        "HOME": str(home),
        "SHELL": "/bin/sh",
        "PYTHONWARNINGS": "ignore",
    }
