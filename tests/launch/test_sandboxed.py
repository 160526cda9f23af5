"""Ranks of a trial share one sandbox: each sees what another writes, and nobody else does."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.inside.job import Job, Sandbox
from hasten.inside.process.wire import Wire
from hasten.inside.sandbox.overlay_folders import make_layers, remove_layers
from hasten.launch.ranks import Rank
from hasten.launch.sandboxed import render
from hasten.machine import this_machine
from hasten.records.messages import Ended, Sandboxed

from ..cli.conftest import Project, wait_until
from ..patience import PATIENCE_SECONDS

SECONDS = PATIENCE_SECONDS  # after which a test has failed

WRITES = """
import os, time
rank = os.environ["RANK"]
if rank == "0":
    os.mkdir("data")
    open("data/part", "w").write("loaded down")
    os.rename("data", "ready")
while not os.path.exists("ready/part"):
    time.sleep(0.01)
print(rank, open("ready/part").read(), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_all()


@contextmanager
def started(
    project: Project, source: str, sandboxed: bool = True
) -> Iterator[tuple[subprocess.Popen[str], Wire]]:
    """Two ranks, of which rank 0 is spoken with."""
    script = project.write("train.py", source)
    folders = (str(project.folder),)
    layers = make_layers()
    ours, theirs = socket.socketpair()
    job = Job((str(script),), this_machine())
    ranks = [
        Rank(replace(job, descriptor=theirs.fileno()), {**project.environment, "RANK": "0"}),
        Rank(job, {**project.environment, "RANK": "1"}),
    ]
    start = render(
        ranks, Sandbox(folders, layers, required=False) if sandboxed else None, project.environment
    )
    process = subprocess.Popen(
        start.argv, env=start.environment, pass_fds=start.descriptors, cwd=project.folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    start.told.close()
    theirs.close()
    try:
        yield process, Wire(ours)
    finally:
        process.kill()
        process.communicate()
        ours.close()
        if layers:
            remove_layers(layers)


def sandboxed(wire: Wire) -> Sandboxed:
    told = wire.receive(SECONDS)
    assert isinstance(told, Sandboxed)
    return told


def test_only_they_see_what_one_of_them_writes(project: Project) -> None:
    with started(project, WRITES) as (process, wire):
        if sandboxed(wire).kind != "overlay":
            pytest.skip("no overlay can be had here, so nothing can be written aside")
        assert isinstance(wire.receive(SECONDS), Ended)
        printed, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, errors) == (0, "")
    assert printed == "0 loaded down\n"
    assert sorted(path.name for path in project.folder.iterdir()) == ["train.py"]


def test_without_a_sandbox_nothing_is_kept_aside(project: Project) -> None:
    with started(project, WRITES, sandboxed=False) as (process, wire):
        assert isinstance(wire.receive(SECONDS), Ended)
        process.communicate(timeout=SECONDS)
    assert (project.folder / "ready" / "part").exists()


def test_a_rank_that_dies_ends_all_and_is_named(project: Project) -> None:
    source = "import os, time\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), 11)\ntime.sleep(600)\n"
    with started(project, source) as (process, wire):
        sandboxed(wire)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 139
    assert "rank 1 of 2 was killed by SIGSEGV" in errors
    wait_until(lambda: project.processes() == [])


def test_they_end_with_whoever_started_them(project: Project) -> None:
    source = "import os, time\nopen(f\"up-{os.environ['RANK']}\", 'w').close()\ntime.sleep(600)\n"
    with started(project, source, sandboxed=False) as (process, _):
        wait_until(lambda: len(list(project.folder.glob("up-*"))) == 2)
        process.kill()
        wait_until(lambda: project.processes() == [])
