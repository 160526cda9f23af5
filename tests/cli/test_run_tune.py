"""``hasten run --tune``: the training is the same training, and the run says what it chose."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.cli.main import main
from hasten.inside.job import Job

from .conftest import Project
from .typed import Typed

# Trains in main(), twice, and says what each batch and each loss was.
SCRIPT = """\
import sys

import torch
from torch import nn


def train(steps):
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(8)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for step in range(steps):
        batch = torch.randn(8, 32)
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step}: {float(batch.sum()):.5f} {loss.item():.4f}")
    return model


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for _ in range(2):
        model = train(int(sys.argv[1]))
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("train.py", SCRIPT)
    return made


def test_it_is_the_same_training(project: Project) -> None:
    """The same batches, the same losses, and the same files as without."""
    plain = project.python("train.py", "400")
    (project.folder / "model.pt").unlink()
    tuned = project.hasten("run", "--tune", "train.py", "400")
    assert tuned.returncode == 0, tuned.stderr
    assert tuned.stdout == plain.stdout
    assert "while training" in tuned.stderr or "still being tried" in tuned.stderr
    assert sorted(path.name for path in project.folder.iterdir()) == ["model.pt", "train.py"]


@pytest.mark.thorough
def test_a_script_that_ends_at_once_is_left_alone(project: Project) -> None:
    tuned = project.hasten("run", "--tune", "train.py", "3")
    assert tuned.returncode == 0, tuned.stderr
    assert tuned.stdout == project.python("train.py", "3").stdout


ALONE = """\
import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
for step in range(100):
    loss = model(torch.ones(4, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        watched = torch.Tensor.backward
print(torch.Tensor.backward is watched)
"""


@pytest.mark.thorough
def test_where_nothing_is_found_the_script_goes_on_as_without_us(project: Project) -> None:
    project.write("alone.py", ALONE)
    tuned = project.hasten("run", "--tune", "alone.py")
    assert tuned.stdout.split() == ["False"], tuned.stderr
    assert project.python("alone.py").stdout.split() == ["True"]
    assert "nothing was tried while training: trains on as before" in tuned.stderr


@pytest.mark.parametrize(
    ("options", "at_once", "steps", "seconds"),
    [
        (["--tune"], True, None, None),
        (["--tune", "--retune-every", "5000"], True, 5000, None),
        (["--retune-every", "30min"], False, None, 1800.0),
    ],
)
def test_a_run_is_told_what_to_try_and_when(
    jobs: list[Job], options: list[str], at_once: bool, steps: int | None, seconds: float | None
) -> None:
    assert main(["run", *options, "train.py"]) == 0
    tuning = jobs[0].tuning
    assert tuning is not None
    assert (tuning.at_once, tuning.again_steps, tuning.again_seconds) == (at_once, steps, seconds)
    assert not tuning.passed


def test_without_either_a_run_tries_nothing(jobs: list[Job]) -> None:
    assert main(["run", "train.py"]) == 0
    assert jobs[0].tuning is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tune", "--no-plan"], "--no-plan trains as without hasten"),
        (["--tune", "--nproc-per-node", "2"], "a training of one process, and --nproc-per-node 2"),
        (["--tune", "--use", "processes:count=2"], "the plan trains in several processes"),
        (["--retune-every", "10"], "expected steps, 1000 or more, or minutes"),
        (["--retune-every", "-3min"], "expected steps, 1000 or more, or minutes"),
        (["--retune-every", "soon"], "expected steps, 1000 or more, or minutes"),
    ],
)
def test_what_cannot_be_is_refused_by_name(refused: Typed, words: list[str], said: str) -> None:
    assert said in refused("run", *words, "train.py")


def test_as_a_rank_of_another_launcher_it_is_refused(refused: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}.items():
        monkeypatch.setenv(name, value)
    assert "each rank would choose by its own clock" in refused("run", "--tune", "train.py")


def test_a_script_that_is_distributed_itself_is_refused(refused: Typed) -> None:
    Path("train.py").write_text("import torch\ntorch.distributed.init_process_group('gloo')\n")
    assert "makes the script one of several ranks" in refused("run", "--tune", "train.py")
