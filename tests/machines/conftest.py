"""One set of hosts for all tests of this folder, and a folder that trains on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..hosts import why_no_hosts
from . import hosts as made
from . import slurm_cluster, sshd
from .cluster import PATIENCE_SECONDS, TRAINING, Cluster, environment_of
from .hosts import Hosts


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


@pytest.fixture
def cluster(hosts: Hosts, tmp_path: Path) -> Cluster:
    folder = tmp_path / "project"
    folder.mkdir()
    return Cluster(hosts, folder, environment_of(hosts, tmp_path))


@pytest.fixture(scope="session")
def slurm(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of one Slurm for all tests."""
    why = slurm_cluster.why_not()
    if why:
        pytest.skip(why)
    with slurm_cluster.slurm(hosts, tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


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
