"""``hasten run --preflight``: whether hosts are there and alike, told before anything trains."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.launch.rendezvous import free_port

from ..hosts import network, why_no_hosts
from ..inside.distributed.ranks import Ended, all_ended
from .conftest import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks of several hosts are for Linux")
HASTEN = (sys.executable, "-m", "hasten.cli.main", "run", "--no-plan")
TOKEN = {"HASTEN_JOB_TOKEN": "a token of this test", "HASTEN_DEADLINE": "60"}


def written(project: Project) -> None:
    project.write("train.py", "import net\nopen('never', 'w')\n")
    project.write("net.py", "width = 3\n")


def two_hosts(project: Project, folders: list[Path], *words: str) -> list[Ended]:
    """One rank on each; both hosts are this machine, each in a folder of its own."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    started = []
    for rank, folder in enumerate(folders):
        own = {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        started.append(
            subprocess.Popen(
                [*HASTEN, *words],
                cwd=folder,
                env=project.environment | TOKEN | place | own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return all_ended(started)


def test_hosts_that_are_alike_are_told_in_a_table(project: Project) -> None:
    written(project)
    first, second = two_hosts(project, [project.folder] * 2, "--preflight", "train.py", "--lr", "1")
    assert (first.code, second.code) == (0, 0), (first, second)
    rows = {line.split("  ")[0]: line for line in first.stdout.splitlines()}
    assert {"host", "ranks", "Python", "torch", "hasten", "memory left", "disk left", "clock"} <= {*rows}
    assert "#1 - " in first.stdout
    assert " MB/s" in first.stdout
    assert first.stdout.splitlines()[-1].startswith("2 hosts, 2 ranks: alike; the slowest link")
    assert second.stdout == ""
    assert not (project.folder / "never").exists()


@pytest.mark.parametrize("words", [("--preflight",), ()], ids=["preflight", "a run"])
def test_a_host_with_another_module_is_named_and_nothing_trains(
    project: Project, words: tuple[str, ...]
) -> None:
    written(project)
    other = project.folder.parent / "other"
    shutil.copytree(project.folder, other)
    (other / "net.py").write_text("width = 4\n")
    first, second = two_hosts(project, [project.folder, other], *words, "train.py")
    assert (first.code, second.code) == (2, 2), (first, second)
    assert "error: net.py differs on " in first.stdout + first.stderr
    assert "#2. copy it to all hosts from the one where it is right" in first.stdout + first.stderr
    assert second.stdout + second.stderr == ""
    assert not (project.folder / "never").exists()
    assert not (other / "never").exists()


def test_a_world_of_its_own_is_found(project: Project) -> None:
    """srun has started two torchruns, and each has made a world of its own."""
    written(project)
    project.environment |= {"RANK": "0", "WORLD_SIZE": "1", "SLURM_STEP_NUM_NODES": "2"}
    done = project.hasten("run", "--no-plan", "--preflight", "train.py")
    assert done.returncode == 2
    assert "error: srun has 2 hosts (SLURM_STEP_NUM_NODES), and this world has 1: each trains" in done.stdout
    assert "--rdzv-endpoint" in done.stdout
    assert not (project.folder / "never").exists()


@pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())
def test_two_torchruns_that_do_not_find_each_other_are_told_so(project: Project) -> None:
    """Each with a rendezvous on its own host: each makes a world of its own."""
    written(project)
    with network(2) as net:
        started = []
        for host in (1, 2):
            own = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "j1"}
            command = [*HASTEN, "--preflight", "train.py"]
            started.append(net.start(host, command, project.environment | own, project.folder))
        done = all_ended(started)
    told = [one.stdout for one in done if one.code]
    assert told, done
    assert all("is checking the same command in a world of its own" in text for text in told)


def test_without_a_launcher_there_is_one_host(project: Project) -> None:
    written(project)
    done = project.hasten("run", "--no-plan", "--preflight", "train.py")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 host, 1 rank: ready")


@pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())
def test_ways_between_hosts_are_measured(project: Project) -> None:
    """Over a network, where nothing listens but at the address of a host on it."""
    written(project)
    with network(3) as net:
        net.limit(200)
        place = {"MASTER_ADDR": net.address(1), "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
        started = []
        for rank in range(3):
            own = {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
            environment = project.environment | TOKEN | place | own
            command = [*HASTEN, "--preflight", "train.py"]
            started.append(net.start(rank + 1, command, environment, project.folder))
        first, *_ = all_ended(started)
    assert [one.returncode for one in started] == [0, 0, 0], first
    for pair in ("h1 - h2", "h1 - h3", "h2 - h3"):
        (line,) = (line for line in first.stdout.splitlines() if line.startswith(pair))
        assert 0 < float(line.split()[-2]) < 100, line  # of 200 Mbit/s; the rest is a burst
    assert "warning: the link between h1 and h2 is slow" in first.stdout
