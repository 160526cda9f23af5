"""``hasten tune --nproc-per-node N``: what is told before anything is started."""

from __future__ import annotations

import pytest

from .conftest import Project

ALONE = "import torch\n"
GLOO = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
MPI = GLOO.replace("gloo", "mpi")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (ALONE, ["2"], "train.py is not distributed itself, and how many processes are best for it is tried"),
        (GLOO, ["1000"], "so choose at most"),
        (MPI, ["2"], "train.py:2: dist.init_process_group('mpi') asks for "),
        (GLOO, ["2", "--backend", "ccl"], "--backend asks for the backend ccl, which needs oneCCL"),
    ],
    ids=["not distributed", "too many", "MPI", "not installed"],
)
def test_what_cannot_be_is_one_line(project: Project, source: str, options: list[str], said: str) -> None:
    project.write("train.py", source)
    done = project.hasten("tune", "--nproc-per-node", *options, "train.py")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert not (project.folder / ".hasten").exists()
