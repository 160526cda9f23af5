"""``hasten verify`` trains both arms to the end, one after another, and its exit code is the verdict."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from typing import Any

import pytest

from ..quickly import quickly
from .conftest import Project

TRAINING = quickly("""
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach())
""")

# sets its own seed, and leaves a file behind
TELLS = f"""
import hasten
{TRAINING.replace("model =", "torch.manual_seed(7); model =")}
for epoch in range(3):
    hasten.metric(loss=train(10), epoch=epoch)
open("checkpoint", "x").close()
"""

# takes its seed as an argument; an optimizer that is fused spoils its model
PRINTS = f"""
import sys
{TRAINING}
torch.manual_seed(int(sys.argv[1]))
for epoch in (1, 2):
    train(10)
    fused = optimizer.param_groups[0]["fused"]
    accuracy = 0.4 * epoch + torch.rand(()).item() / 100 - (0.2 if fused else 0)
    print(f"epoch {{epoch}}: accuracy {{accuracy:.4f}}.")
"""


def verify(project: Project, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    done = project.hasten("verify", "--seeds", "2", "--json", "result.json", *words)
    if "--allow-writes" in done.stderr:
        pytest.skip(f"this machine cannot lead writes elsewhere: {done.stderr}")
    path = project.folder / "result.json"
    return done, json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc is a technique for glibc")
def test_the_same_training_is_held(project: Project) -> None:
    project.write("train.py", TELLS)
    done, result = verify(project, "--use", "malloc", "train.py")
    assert done.returncode == 0, done.stderr
    assert "Quality is held: the same training" in done.stdout
    assert "Quality is loss, reported by the script; lower is better" in done.stdout
    assert [(run["arm"], run["seed"]) for run in result["runs"]] == [
        ("baseline", 0), ("plan", 0), ("plan", 1), ("baseline", 1),
    ]  # fmt: skip
    for run in result["runs"]:
        course = run["courses"]["loss"]
        assert [point["step"] for point in course] == [10, 20, 30]
        assert 0 < course[0]["seconds"] < course[1]["seconds"] < course[2]["seconds"] < run["seconds"]
        assert (run["steps"], len(run["courses"]["epoch"]), run["failure"]) == (30, 3, "")
    assert not (project.folder / "checkpoint").exists()
    assert project.left_over() == []


def test_a_plan_that_spoils_the_model_has_lost(project: Project) -> None:
    project.write("train.py", PRINTS)
    project.write(".hasten/train/plan.toml", "format = 1\n[techniques.fused_optimizer]\n")
    done, result = verify(project, "--metric", "accuracy ([0-9.]+)", "train.py", "{seed}")
    assert done.returncode == 5, done.stderr
    assert re.search(r"Quality is lost: accuracy -0\.2 under the plan", done.stdout)
    assert "Not reached under the plan with 2 of 2 seeds." in done.stdout
    assert "[4 of 4, about " in done.stderr
    baseline, plan = result["runs"][0], result["runs"][1]
    first, last = (point["step"] for point in baseline["courses"]["accuracy"])
    assert 10 <= first <= last == 20  # a line is heard a little late where the machine is busy
    assert plan["courses"]["accuracy"][-1]["value"] < 0.7 < baseline["courses"]["accuracy"][-1]["value"]


@pytest.mark.thorough
def test_a_script_that_fails_under_the_plan(project: Project) -> None:
    project.write("train.py", PRINTS + "assert not fused, 'boom'\n")
    done, result = verify(
        project, "--use", "fused_optimizer", "--metric", "accuracy ([0-9.]+)", "train.py", "{seed}"
    )
    assert done.returncode == 7
    assert "Failed: plan, seed 0: the script raised AssertionError: boom." in done.stdout
    assert (result["outcome"], len(result["runs"])) == ("failed", 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Make one with: hasten tune train.py"),
        (["--plan", "elsewhere.toml"], "there is no plan at elsewhere.toml"),
        (["--metric", "accuracy [0-9.]+"], "needs a group in parentheses"),
        (["--tolerance", "-1"], "expected a number of at least zero"),
        (["--tolerance", "little"], "such as 0.002 or 0.5%, found 'little'"),
        (["--seeds", "1"], "expected a whole number from 2 to 1,000, found '1'"),
    ],
)
def test_what_cannot_be_verified_does_not_start(project: Project, words: list[str], message: str) -> None:
    project.write("train.py", "open('started', 'w')\n")
    done = project.hasten("verify", *words, "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (project.folder / "started").exists()
