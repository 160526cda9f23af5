"""What is pulled away from under a real tune while it measures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..patience import PATIENCE_SECONDS
from .conftest import Project

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc"),
    pytest.mark.attack("together"),
    pytest.mark.thorough,
]

TRAINS = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 2)
optimizer = torch.optim.Adam(model.parameters())
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    print("a step", flush=True)
"""
DISK_BYTES = 16 * 2**20


class Tune:
    """One that is trying something."""

    def __init__(self, project: Project) -> None:
        project.write("train.py", TRAINS)
        self.project = project
        self._process = project.start("tune", "--budget", "200", "train.py")
        assert self._process.stderr is not None
        while "trying " not in (line := self._process.stderr.readline()):
            assert line, "it ended too soon"

    def end(self) -> tuple[int, str]:
        _, said = self._process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in said
        assert self.project.left_over() == []
        assert os.listdir(self.project.temporary) == []
        return self._process.returncode, said


def test_what_is_cleared_away_is_made_anew(project: Project) -> None:
    """By ``rm -rf .hasten``. What was measured counts."""
    tune = Tune(project)
    shutil.rmtree(project.folder / ".hasten")
    code, said = tune.end()
    assert code in (0, 6), said  # 6: accuracy could not be checked, for whatever reason
    assert (project.folder / ".hasten/train/plan.toml").exists() == (code == 0)


@pytest.fixture
def small_disk(project: Project) -> Iterator[Project]:
    size = f"size={DISK_BYTES}"
    command = ["mount", "-t", "tmpfs", "-o", size, "none", str(project.folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount(8)")
    if mounted.returncode:
        pytest.skip(f"only root can mount: {mounted.stderr.strip()}")
    yield project
    project.end_all()
    subprocess.run(["umount", "--lazy", str(project.folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "something.else").open("wb", buffering=0) as file:
        for bytes_at_once in (2**16, 1):
            try:
                while file.write(bytes(bytes_at_once)):
                    pass
            except OSError:
                continue


def test_a_disk_that_becomes_full_ends_it(small_disk: Project) -> None:
    """The script is not to blame for it, and no technique is."""
    tune = Tune(small_disk)
    fill(small_disk.folder)
    code, said = tune.end()
    assert code == 1, said
    last = said.splitlines()[-1]
    assert last.startswith("hasten: the disk is full: 0 KiB are left in .hasten/train/trials/")
    assert last.endswith("Make room and run again")
