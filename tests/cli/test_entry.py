"""Other ways in: modules, notebooks, and techniques named by hand."""

from __future__ import annotations

import json

import pytest

from ..quickly import quickly
from .conftest import Project

TRAINS = quickly("""
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 4))
optimizer = torch.optim.Adam(model.parameters())
for step in range(60):
    optimizer.zero_grad()
    model(torch.randn(8, 1, 8, 8)).square().mean().backward()
    optimizer.step()
""")


def test_a_module_runs_as_under_python(project: Project) -> None:
    project.environment["OMP_NUM_THREADS"] = "1"
    project.write("package/__init__.py", "")
    project.write("package/beside.py", "value = 7\n")
    project.write(
        "package/train.py",
        "import sys\nfrom .beside import value\n"
        "print(value, sys.argv, __name__, __package__, __spec__.name, sys.path[0])\n" + TRAINS,
    )
    plain = project.python("-m", "package.train", "--budget", "3")
    ours = project.hasten("run", "--use", "fused_optimizer", "-m", "package.train", "--budget", "3")
    assert plain.returncode == ours.returncode == 0, ours.stderr
    assert ours.stdout.split() == plain.stdout.split()


def test_a_package_runs_its_main(project: Project) -> None:
    project.write("package/__init__.py", "")
    project.write("package/__main__.py", "import sys\nprint('main', sys.argv[1:])\n")
    done = project.hasten("run", "--no-plan", "-m", "package", "x")
    assert (done.stdout, done.returncode) == ("main ['x']\n", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "nowhere"], "no module named nowhere"),
        (["-m", "package"], "needs a __main__.py"),
        (["-m", "package.nothing"], "no module that can be run"),
        (["-m"], "expected a module's name"),
    ],
)
def test_modules_that_cannot_run(project: Project, words: list[str], message: str) -> None:
    project.write("package/__init__.py", "")
    done = project.hasten("run", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_notebook_trains(project: Project) -> None:
    project.environment["OMP_NUM_THREADS"] = "1"
    cells = [
        {"cell_type": "code", "source": source}
        for source in ("%load_ext nothing\n" + TRAINS, "print('done')")
    ]
    project.write("train.ipynb", json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}))
    done = project.hasten("run", "--use", "fused_optimizer", "--strict", "train.ipynb")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert "run without: %load_ext nothing" in done.stderr
    profiled = project.hasten("profile", "--json", "-", "train.ipynb")
    assert json.loads(profiled.stdout)["optimizers"][0]["name"] == "Adam"


def test_a_broken_notebook(project: Project) -> None:
    project.write("train.ipynb", "{}")
    done = project.hasten("tune", "train.ipynb")
    assert done.returncode == 2
    assert "train.ipynb is not a notebook: it has no list of cells" in done.stderr


@pytest.mark.thorough
def test_a_technique_by_hand_takes_effect(project: Project) -> None:
    project.write("train.py", TRAINS + "print(optimizer.param_groups[0]['fused'], torch.get_num_threads())\n")
    done = project.hasten("run", "--use", "fused_optimizer", "--use", "threads:count=1", "train.py")
    assert done.stdout == "True 1\n", done.stderr
    assert "training under the techniques named by --use: fused_optimizer + threads" in done.stderr


@pytest.mark.thorough
def test_a_technique_taken_out_of_a_plan(project: Project) -> None:
    project.write("train.py", TRAINS + "print(optimizer.param_groups[0]['fused'])\n")
    project.write("plan.toml", "format = 1\n[techniques.fused_optimizer]\n[techniques.malloc]\n")
    done = project.hasten("run", "--plan", "plan.toml", "--without", "fused_optimizer", "train.py")
    assert done.stdout == "None\n"
    assert "training under plan.toml: malloc" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--use", "bf17"], "there is no technique 'bf17'"),
        (["--use", "threads:count"], "settings are KEY=VALUE"),
        (["--use", "threads:count=many"], "whole number from 1 to 4096"),
        (["--use", "bf16:speed=9"], "takes no settings"),
        (["--without", "bf17"], "there is no technique 'bf17'"),
        (["--no-plan", "--use", "bf16"], "leave out --use"),
    ],
)
def test_hands_that_slip(project: Project, words: list[str], message: str) -> None:
    project.write("train.py", "open('started', 'w')\n")
    done = project.hasten("run", *words, "train.py")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (project.folder / "started").exists()
