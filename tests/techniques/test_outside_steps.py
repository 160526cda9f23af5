"""What makes evaluations and epochs' turns shorter, all at once: a script prints what it prints without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.inside.job import Job
from hasten.inside.techniques.catalog import CATALOG
from hasten.launch.one_process import render
from hasten.machine import this_machine
from hasten.records.plan import Plan

from ..patience import PATIENCE_SECONDS

SCRIPT = """
import random, sys
import numpy, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)

class Pictures(Dataset):
    def __init__(self, count, train):
        self.pictures, self.train = torch.randn(count, 3, 8, 8), train
    def __len__(self):
        return len(self.pictures)
    def __getitem__(self, index):
        picture = self.pictures[index]
        if self.train:
            picture = picture + random.random() * torch.rand(1) + numpy.random.rand()
        return picture.float(), index % 4

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
optimizer = torch.optim.Adam(model.parameters())
train = DataLoader(Pictures(60, True), batch_size=5, shuffle=True, num_workers=2)
test = DataLoader(Pictures(20, False), batch_size=10, num_workers=1)
for epoch in range(int(sys.argv[1])):
    model.train()
    for inputs, labels in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    gradients = torch.set_grad_enabled(epoch % 2 == 0)  # left on, and off in every other evaluation
    total = sum(nn.functional.cross_entropy(model(inputs), labels).item() for inputs, labels in test)
    torch.set_grad_enabled(True)
    print(epoch, loss.item(), total, torch.rand(1).item())
"""
OUTSIDE = [name for name, technique in CATALOG.items() if "steps" not in technique.parts]


def run(command: list[str], environment: dict[str, str]) -> tuple[str, str]:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    return done.stdout, done.stderr


@pytest.fixture
def short_folder() -> Iterator[str]:
    """For sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory() as made:
        yield made


@pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
def test_a_script_prints_what_it_prints_without(tmp_path: Path, short_folder: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TMPDIR": short_folder}
    plain, _ = run([sys.executable, str(script), "4"], environment)
    names = ("persistent_workers", "evaluation_in_ram", "graph_free_evaluation")
    assert set(names) <= set(OUTSIDE)
    job = Job(argv=(str(script), "4"), machine=this_machine(), plan=Plan({name: {} for name in names}))
    ours, said = run(*render(job, environment))
    assert ours == plain
    assert said == ""
    assert list(Path(short_folder).glob("pymp-*")) == [], "workers that stayed were killed at the end"


@pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
def test_what_had_no_effect_by_the_end_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = Job(argv=(str(script), "1"), machine=this_machine(), plan=Plan({"persistent_workers": {}}))
    _, said = run(*render(job, dict(os.environ)))
    assert "persistent_workers has no effect here: 0 passes" in said
