"""mpirun on two hosts, by ssh. That ranks train together is in test_page.py."""

from __future__ import annotations

import pytest

from .cluster import Cluster
from .faults.bed import OWN, Bed
from .faults.table import check_hang


def test_a_rank_that_fails_ends_the_others(cluster: Cluster) -> None:
    cluster.need("mpirun.openmpi")
    cluster.write(
        "train.py",
        "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(9)\ntime.sleep(600)\n",
    )
    done = cluster.hasten("run", "--no-plan", "--engine", "openmpi", "--hosts", "h1,h2", "train.py")
    assert done.returncode == 9, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("engine", "program"), [("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.hydra")])
def test_a_rank_that_hangs_is_named_and_its_stack_shown(cluster: Cluster, engine: str, program: str) -> None:
    cluster.need(program)
    bed = Bed(cluster, OWN)
    bed.go_on()
    words = ("--no-plan", "--engine", engine, "--hosts", "h1,h2", "--group-timeout", "10")
    done = cluster.hasten("run", *words, OWN, "hangs")
    check_hang(done.returncode, done.stderr)
