"""Modules that scripts import to make oneCCL known to torch: ours where they are not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from hasten.inside.job import Job, OwnGroup
from hasten.launch.one_process import render

from ...bench.made_up import machine
from ...patience import PATIENCE_SECONDS

NAMES = ("oneccl_bindings_for_pytorch", "torch_ccl")
pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) for name in NAMES), reason="the bindings are installed"
    ),
]


def run(folder: Path, source: str, own_group: OwnGroup | None) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(source)
    argv, environment = render(Job(("train.py",), machine(), own_group=own_group), os.environ)
    return subprocess.run(
        argv,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ("", NAMES[0]),
        ("import torch\n", NAMES[1]),
        pytest.param("", NAMES[1], marks=pytest.mark.thorough),
        pytest.param("import torch\n", NAMES[0], marks=pytest.mark.thorough),
    ],
)
def test_importing_them_makes_ccl_known(tmp_path: Path, name: str, first: str) -> None:
    source = f"{first}import {name}\nimport torch.distributed as dist\nprint(dist.Backend.CCL)\n"
    done = run(tmp_path, source, OwnGroup())
    assert (done.returncode, done.stdout) == (0, "ccl\n"), done.stderr


def test_those_of_the_users_come_first(tmp_path: Path) -> None:
    (tmp_path / "torch_ccl.py").write_text("print('of the user')\n")
    assert run(tmp_path, "import torch_ccl\n", OwnGroup()).stdout == "of the user\n"


def test_a_script_that_is_no_rank_is_not_told_of_them(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch_ccl\n", None)
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'torch_ccl'\n")
