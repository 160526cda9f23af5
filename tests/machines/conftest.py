"""One set of hosts for all tests of this folder, and a folder that trains on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..hosts import why_no_hosts
from . import hosts as made
from . import slurm_cluster, sshd
from .hosts import Hosts

TRAINING = Path(__file__).with_name("training.py")
PATIENCE_SECONDS = 300


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    why = why_no_hosts()
    if why:
        pytest.skip(why)
    without_sshd = sshd.why_not()
    if without_sshd:
        pytest.skip(without_sshd)
    with made.hosts(tmp_path_factory.mktemp("hosts")) as found:
        enter = {name: found.start(name) for name in found.names}
        with sshd.servers(enter, found.folder):
            yield found


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


@pytest.fixture
def cluster(hosts: Hosts, tmp_path: Path) -> Cluster:
    folder = tmp_path / "project"
    folder.mkdir()
    environment = {
        "PATH": f"{hosts.folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SHELL": "/bin/sh",
        "PYTHONWARNINGS": "ignore",
    }
    return Cluster(hosts, folder, environment)


@pytest.fixture(scope="session")
def slurm(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of one Slurm for all tests."""
    why = slurm_cluster.why_not()
    if why:
        pytest.skip(why)
    with slurm_cluster.slurm(hosts, tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def until(happened: Callable[[], bool]) -> None:
    """Return once it has; what never does fails the test."""
    ends_by = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < ends_by, "it has not happened"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def in_one_process(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The parameters that the training ends with where nothing of hasten's or of several hosts is in it."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([sys.executable, str(TRAINING), "alone"], cwd=folder, check=True, timeout=PATIENCE_SECONDS)
    found = json.loads((folder / "alone-0.json").read_text())["parameters"]
    assert isinstance(found, list)
    return found


def check_ranks(ranks: list[dict[str, object]], expected: list[float], size: int, hosts: int = 2) -> None:
    """All ranks have trained what one process trains, and found what scripts ask for."""
    assert len({told["host"] for told in ranks}) == hosts
    assert [told["RANK"] for told in ranks] == [str(number) for number in range(size)]
    for told in ranks:
        assert told["WORLD_SIZE"] == str(size)
        if hosts > 1:
            assert told["GLOO_SOCKET_IFNAME"] == "eth0"
            assert told["timeout_seconds"] == 600
        assert told["hidden"] == []
        assert told["parameters"] == pytest.approx(expected, rel=0, abs=1e-12)
