"""``hasten profile`` watches a training and changes nothing: not a bit of it, not a file."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .conftest import Project

WARMUP, STEPS = 3, 5
WATCHED = 1 + WARMUP + STEPS

TRAINING = """
import hashlib, os, random, sys
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset

def streams():
    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state().tolist()
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]

for seed in (random.seed, numpy.random.seed, torch.manual_seed):
    seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5),
    torch.nn.Flatten(), torch.nn.Linear(288, 4),
)
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(64, 3, 8, 8), torch.arange(64) % 4)
loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
step = 0
os.makedirs("checkpoints", exist_ok=True)
while step < int(sys.argv[1]):
    for pictures, labels in loader:
        pictures = pictures * random.random() + numpy.random.rand()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        step += 1
        print(step, loss.item().hex(), streams(), flush=True)
        torch.save(model.state_dict(), "checkpoints/last.pt")
        with open("log.txt", "a") as log:
            log.write(f"{step} {loss.item()}\\n")
        if step == 2:
            os.rename("notes.txt", "renamed.txt")
            os.remove("results.csv")
"""


def contents(folder: Path) -> Mapping[str, str]:
    """Every file below ``folder`` with the digest of its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
        if ".hasten" not in path.parts
    }


def prepare(project: Project) -> None:
    project.write("train.py", TRAINING)
    project.write("notes.txt", "mine")
    project.write("results.csv", "mine, too")
    project.write("log.txt", "0 an older run\n")


@dataclass
class Watched:
    project: Project
    plain: str  # what the script prints under Python
    profiled: subprocess.CompletedProcess[str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    result: dict[str, Any]

    @property
    def printed(self) -> list[str]:
        """The script's lines; the report begins with an empty one."""
        return self.profiled.stdout.split("\n\n")[0].splitlines()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """One training under Python, and the same under ``hasten profile`` in a folder of its own."""
    plain, project = (Project(tmp_path_factory.mktemp(name)) for name in ("plain", "profiled"))
    prepare(plain)
    prepare(project)
    printed = plain.python("train.py", str(WATCHED + 4))
    assert printed.returncode == 0, printed.stderr
    before = contents(project.folder)
    result = project.folder.parent / "result.json"
    options = ("--warmup", str(WARMUP), "--steps", str(STEPS), "--json", str(result))
    profiled = project.hasten("profile", *options, "train.py", "1000000")
    if "--allow-writes" in profiled.stderr:
        pytest.skip(f"this machine cannot lead writes elsewhere: {profiled.stderr}")
    assert profiled.returncode == 0, profiled.stderr
    return Watched(
        project,
        printed.stdout,
        profiled,
        before,
        contents(project.folder),
        json.loads(result.read_text()),
    )


def test_the_training_is_the_same_to_the_last_bit(watched: Watched) -> None:
    """Losses and RNG states, step by step, as far as it was watched."""
    assert len(watched.printed) >= WATCHED - 1
    assert watched.plain.splitlines()[: len(watched.printed)] == watched.printed


def test_what_the_script_prints_comes_first_and_unchanged(watched: Watched) -> None:
    script, _, report = watched.profiled.stdout.partition("\n\n")
    assert watched.plain.startswith(script + "\n")
    assert report.startswith(f"{STEPS} steps after {1 + WARMUP} warm-up steps: ")


def test_no_file_is_touched(watched: Watched) -> None:
    """The script saved a checkpoint, wrote to its log, renamed a file and removed another."""
    assert watched.after == watched.before


def test_nothing_is_left_over(watched: Watched) -> None:
    """Nor of the loader's worker, which is killed with the script; it has a folder of its own until then."""
    assert watched.project.left_over() == []
    assert list(watched.project.temporary.iterdir()) == []


def test_nothing_is_said_besides(watched: Watched) -> None:
    assert watched.profiled.stderr == ""


def test_the_losses_in_the_json_are_the_scripts(watched: Watched) -> None:
    printed = [float.fromhex(line.split()[1]) for line in watched.plain.splitlines()]
    assert watched.result["losses"] == printed[1 + WARMUP : WATCHED]


def test_the_json_tells_what_the_report_tells(watched: Watched) -> None:
    result = watched.result
    assert (result["steps"], result["warmup_steps"], result["batch_size"]) == (STEPS, 1 + WARMUP, 8)
    assert [(root["convolutions"], root["dropout"]) for root in result["roots"]] == [(1, True)]
    assert [(o["name"], o["fused"]) for o in result["optimizers"]] == [("Adam", False)]
    assert [(loader["samples"], loader["training"]) for loader in result["loaders"]] == [(64, True)]


def test_the_phases_add_up(watched: Watched) -> None:
    phases = watched.result["phases"]
    assert list(phases) == ["data", "forward", "loss", "backward", "optimizer", "other"]
    assert all(seconds >= 0 for seconds in phases.values())
    assert min(phases[name] for name in ("data", "forward", "backward", "optimizer")) > 0


def test_where_an_epoch_goes_is_told(watched: Watched) -> None:
    """Its eight steps are among those that were watched."""
    run = watched.result["run"]
    assert (run["ended"], run["epochs"], run["epoch_steps"]) == (False, 1, 8)
    assert run["breakdown"]["basis"] == "epochs"
    counts = {part["name"]: part["count"] for part in run["breakdown"]["parts"]}
    assert (counts["steps"], counts["saving"], counts["output"]) == (8, 8, 8)
    saving = next(part for part in run["parts"] if part["name"] == "saving")
    assert [place.split(":")[0] for place in saving["where"]] == ["train.py"]
    report = watched.profiled.stdout.split("\n\n")[1]
    assert "\nAn epoch takes " in report
    assert "No evaluation was seen." in report


def test_a_whole_run_is_watched_to_its_end(project: Project) -> None:
    prepare(project)
    options = ("--allow-writes", "--steps", "2", "--warmup", "1", "--whole", "--json", "-")
    done = project.hasten("profile", *options, "train.py", "24")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    assert (run["ended"], run["epochs"], run["breakdown"]["basis"]) == (True, 3, "run")
    parts = {part["name"]: part for part in run["parts"]}
    assert (parts["steps"]["count"], parts["saving"]["count"]) == (24, 24)
    assert sum(part["seconds"] for part in run["parts"]) == pytest.approx(run["seconds"], rel=0.02)
    assert "The whole run took " in done.stderr


def test_json_on_standard_output_is_all_there_is(project: Project) -> None:
    prepare(project)
    options = ("--allow-writes", "--steps", "2", "--warmup", "1", "--json", "-")
    done = project.hasten("profile", *options, "train.py", "100")
    assert json.loads(done.stdout)["steps"] == 2
    assert done.stderr.startswith("1 0x")  # the script's own lines
    assert "2 steps after 2 warm-up steps" in done.stderr
    assert done.returncode == 0


def test_a_script_that_ends_too_soon(project: Project) -> None:
    prepare(project)
    done = project.hasten("profile", "--allow-writes", "train.py", "8")
    assert done.returncode == 3
    assert done.stderr.startswith(
        "hasten: train.py ended after 8 training steps: hasten profile needs at least 10, hasten tune 20. "
    )


RAISES = """
import torch

class Net(torch.nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("boom")
        return self.layer(inputs)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
"""


def test_a_script_that_raises_in_its_third_step(project: Project) -> None:
    path = project.write("fails.py", RAISES)
    done = project.hasten("profile", "--allow-writes", "fails.py")
    assert done.returncode == 1
    printed, _, told = done.stderr.partition("hasten: fails.py raised an error of its own ")
    frames = [line for line in printed.splitlines() if line.startswith("  File ")]
    assert frames[0] == f'  File "{path}", line 21, in <module>'
    assert frames[-1] == f'  File "{path}", line 14, in forward'
    assert told.endswith("RuntimeError: boom\n")
    assert "hasten/inside" not in done.stderr  # in what the worker said neither
