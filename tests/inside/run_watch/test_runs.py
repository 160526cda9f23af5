"""Real small trainings that become slower, as ``hasten run`` starts them, but looked at by short blocks."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.inside.job import Job
from hasten.launch.one_process import render
from hasten.machine import this_machine
from hasten.records.plan import Plan
from hasten.records.run_pace import TunedPace, WatchedRun

from ...patience import PATIENCE_SECONDS

SOON = WatchedRun(warmup_steps=20, warmup_seconds=0.05, block_seconds=0.05, lasting_seconds=1.0)
SOONER = replace(SOON, lasting_seconds=0.2)
TOLD = "hasten: steps take "

TRAINING = """
import time, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

class Samples(Dataset):
    def __len__(self):
        return 8 * STEPS
    def __getitem__(self, index):
        if not index % 8:
            made(index // 8)
        return torch.full((64,), index / 8e3), index % 3

def made(batch): pass
def after(step): pass
SCRIPT
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
optimizer = torch.optim.AdamW(model.parameters())
for step, (x, y) in enumerate(DataLoader(Samples(), batch_size=8)):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    after(step)
print("done", step)
"""
GROWING_LIST = """
STEPS, seen = 7300, []
def after(step):
    if step > 6000:
        seen.extend(range(1000))
    return sum(seen)
"""
LEAK = """
STEPS, kept = 6350, []
def after(step):
    if step > 6000:
        kept.append(torch.ones(300_000))
    for one in kept:
        one.add_(1)
"""
SLOW_SAMPLES = """
STEPS = 6300
def made(batch):
    if batch > 6000:
        time.sleep(0.02)
"""


def run(folder: Path, script: str, watched: WatchedRun = SOON) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(TRAINING.replace("SCRIPT", script))
    plan = Plan({"fused_optimizer": {}})
    job = Job(("train.py",), this_machine(), plan, watched=watched)
    command, environment = render(job, os.environ)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(
            GROWING_LIST,
            "what takes longer is the script's own code between the steps",
            marks=pytest.mark.thorough,  # while other programs run, its first blocks may differ too much
        ),
        pytest.param(LEAK, "its memory grows by ", marks=pytest.mark.thorough),
        pytest.param(SLOW_SAMPLES, "it waits for data, ", marks=pytest.mark.thorough),
    ],
    ids=["a growing list", "a leak", "slow samples"],
)
def test_a_training_that_becomes_slower_is_told_so_once_with_the_cause(
    tmp_path: Path, script: str, words: str
) -> None:
    done = run(tmp_path, script)
    told = [line for line in done.stderr.splitlines() if line.startswith(TOLD)]
    assert len(told) == 1
    assert "as long as earlier in this run" in told[0]
    assert words in told[0]
    assert done.stdout.startswith("done")


def test_a_training_that_is_slower_than_in_the_tune_is_told_so(tmp_path: Path) -> None:
    tuned = TunedPace(1e-6, 1.1e-6, 8.0)
    done = run(tmp_path, "STEPS = 12000", replace(SOONER, tuned=tuned))
    told = [line for line in done.stderr.splitlines() if line.startswith(TOLD)]
    assert len(told) == 1
    assert "as long as when the plan was tuned" in told[0]


@pytest.mark.thorough
def test_other_batches_are_not_compared_with_the_tune(tmp_path: Path) -> None:
    tuned = TunedPace(1e-6, 1.1e-6, 16.0)
    assert "tuned" not in run(tmp_path, "STEPS = 9000", replace(SOONER, tuned=tuned)).stderr
