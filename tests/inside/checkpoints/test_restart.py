"""A script that is killed and started again ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ...scripts.shapes import FOLDER as SHAPES_FOLDER
from .restarting import EVERY, SCRIPT, checkpoints, continued, ended, kept, killed, step_of

TOLERANCE = 1e-10
PLAIN = [sys.executable, str(SCRIPT)]


def folders(place: Path) -> tuple[Path, Path]:
    (place / "whole").mkdir()
    (place / "parts").mkdir()
    return place / "whole", place / "parts"


def assert_same_end(whole: Path, parts: Path) -> None:
    (expected, losses, steps), (found, again, so_many) = (
        json.loads((folder / "weights.json").read_text()) for folder in (whole, parts)
    )
    assert (steps, losses) == (so_many, again)
    for name, values in expected.items():
        difference = (torch.tensor(values) - torch.tensor(found[name])).double().abs().max()
        assert difference <= TOLERANCE, name
    assert (whole / "log.csv").read_bytes() == (parts / "log.csv").read_bytes()


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("stopping",), marks=pytest.mark.thorough),
        ("augmentation", "mixing"),
        pytest.param(("workers", "augmentation", "stopping"), marks=pytest.mark.thorough),
        pytest.param(("accumulation", "mixing"), marks=pytest.mark.thorough),
    ],
    ids="-".join,
)
def test_a_killed_script_ends_as_if_it_had_not_been(tmp_path: Path, asked: tuple[str, ...]) -> None:
    whole, parts = folders(tmp_path)
    printed = ended([*PLAIN, *asked], whole).stdout.splitlines()
    steps = sum(line.startswith("step ") for line in printed)
    killed([*kept(parts), *asked], parts, random.randrange(steps // 2, steps - 4))
    again = continued([*kept(parts), *asked], parts)
    rest = again.stdout.splitlines()
    assert rest == printed[len(printed) - len(rest) :]
    assert len(rest) < len(printed)
    assert_same_end(whole, parts)


@pytest.mark.thorough
def test_killed_again_and_again(tmp_path: Path) -> None:
    whole, parts = folders(tmp_path)
    ended([*PLAIN, "mixing"], whole)
    for step in (20, 45, 70):
        killed([*kept(parts), "mixing"], parts, step)
    continued([*kept(parts), "mixing"], parts)
    assert_same_end(whole, parts)


@pytest.mark.thorough
def test_a_signal_brings_a_checkpoint_at_the_end_of_the_step(tmp_path: Path) -> None:
    whole, parts = folders(tmp_path)
    ended(PLAIN, whole)
    said = killed(kept(parts, every="1h"), parts, 30, signal.SIGTERM, least=0)
    assert "stopped after step" in said
    continued(kept(parts, every="1h"), parts)
    assert_same_end(whole, parts)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its middle."""
    folder = tmp_path_factory.mktemp("half")
    killed(kept(folder), folder, 50, least=EVERY + 1)  # the second at least
    return folder


def copy_of(half: Path, place: Path) -> Path:
    subprocess.run(["cp", "-r", str(half / "kept"), str(place / "kept")], check=True)
    return place


def test_two_are_kept(half: Path) -> None:
    assert len(checkpoints(half)) in (2, 3)  # the oldest goes once the newest is there


@pytest.mark.thorough
def test_the_older_one_is_taken_where_the_newest_is_damaged(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    older, newest = checkpoints(folder)[-2:]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    again = ended(kept(folder), half)
    assert f"{newest} is cut short or was changed" in again.stderr
    assert f"going on after step {step_of(older)} " in again.stderr


def test_all_damaged_is_refused(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    damaged = checkpoints(folder)
    for path in damaged:
        path.write_bytes(path.read_bytes()[:100])
    refused = ended(kept(folder), half, code=2)
    assert f"none of the {len(damaged)} checkpoints" in refused.stderr
    assert refused.stdout == ""


def test_other_arguments_are_refused(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    refused = ended([*kept(folder), "mixing"], half, code=2)
    assert "arguments was [], and now ['mixing']" in refused.stderr


def test_another_folder_is_refused(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    assert "folder was" in ended(kept(folder), tmp_path, code=2).stderr


def test_a_script_that_was_changed_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.read_text())
    command = [*kept(tmp_path)[:-1], "script.py"]
    killed(command, tmp_path, 30)
    script.write_text(SCRIPT.read_text() + "# changed\n")
    assert "it was changed or is gone" in ended(command, tmp_path, code=2).stderr


def test_ranks_of_a_launcher_that_each_train_all_of_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    refused = ended(kept(tmp_path), tmp_path, code=2)
    assert "each of mpirun's 2 ranks trains all of the script by itself" in refused.stderr
    assert not (tmp_path / "kept").exists()


def test_processes_that_the_script_starts_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(
        "import torch.distributed as dist\nimport torch.multiprocessing as mp\n"
        "def train(rank, size):\n    dist.init_process_group('gloo', rank=rank, world_size=size)\n"
        "mp.spawn(train, args=(2,), nprocs=2)\n"
    )
    refused = ended([*kept(tmp_path)[:-1], "spawns.py"], tmp_path, code=2)
    assert "starts the script's own processes, which cannot be continued yet" in refused.stderr


BY_A_LIBRARY = """
import sys
import torch
if len(sys.argv) > 1:
    from accelerate import Accelerator
    accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.thorough
def test_a_library_that_would_train_in_several_processes_is_alone_here(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BY_A_LIBRARY)
    ended(kept(tmp_path, script=script), tmp_path)
    assert checkpoints(tmp_path)
    ended(kept(tmp_path, "--nproc-per-node", "1", script=script), tmp_path)


DRAWS_FROM_THE_SYSTEM = """
import os
import torch
from torch import nn
model = nn.Linear(4, 1)
with torch.no_grad():
    model.weight.fill_(os.urandom(1)[0] / 256 + len(os.listdir('.')) * 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(1, 61):
    loss = model(torch.ones(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item(), flush=True)
"""
COUNTS_ON_THE_SIDE = """
import os
import torch
from torch import nn
found = os.path.exists('flag')
open('flag', 'w').close()
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(1, 61):
    loss = model(torch.ones(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item(), flush=True)
"""

HIDES_A_TENSOR = """
import itertools
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
hidden = itertools.cycle([torch.zeros(())])
for step in range(1, 61):
    loss = model(torch.randn(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    next(hidden).add_(loss.detach())
    print("step", step, loss.item(), flush=True)
print(next(hidden).item())
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(DRAWS_FROM_THE_SYSTEM, "begins otherwise", marks=pytest.mark.thorough),
        pytest.param(COUNTS_ON_THE_SIDE, "found was False and is True", marks=pytest.mark.thorough),
        (HIDES_A_TENSOR, "that no name leads to"),
    ],
    ids=["weights", "a value", "a hidden tensor"],
)
def test_what_is_not_the_same_again_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "script.py").write_text(text)
    command = [*kept(tmp_path)[:-1], "script.py"]
    killed(command, tmp_path, 40)
    refused = ended(command, tmp_path, code=2)
    assert words in refused.stderr
    assert refused.stdout == ""


def test_a_folder_that_vanishes_is_said_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        COUNTS_ON_THE_SIDE.replace("flag", "kept/flag").replace(
            "    print(", "    if step == 30:\n        os.rename('kept', 'gone')\n    print("
        )
    )
    run = ended([*kept(tmp_path)[:-1], "script.py"], tmp_path)
    assert run.stderr.count("was removed meanwhile") == 1
    assert "step 60 " in run.stdout


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        pytest.param(
            "per_sample_gradients",
            "a model is called under a transform of torch.func",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "steps_in_backward", "optimizers step within the backward pass", marks=pytest.mark.thorough
        ),
    ],
)
def test_what_cannot_be_followed_is_said_and_trains_as_without_checkpoints(
    tmp_path: Path, shape: str, why: str
) -> None:
    script = SHAPES_FOLDER / f"{shape}.py"
    plain = ended([sys.executable, str(script)], tmp_path)
    run = ended(kept(tmp_path, script=script), tmp_path)
    assert run.stdout == plain.stdout
    assert f"cannot be continued from a checkpoint and goes on without: {why}" in run.stderr
