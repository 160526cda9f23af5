"""mpirun of Open MPI and mpiexec of MPICH on two hosts, by ssh; gradients go by Gloo."""

from __future__ import annotations

import pytest

from hasten.launch.engines.mpi import Mpich, OpenMpi

from .conftest import Cluster, check_ranks

ENGINES = {engine.name: engine for engine in (OpenMpi(), Mpich())}


@pytest.mark.parametrize("name", ENGINES)
def test_two_hosts_train_what_one_process_trains(
    cluster: Cluster, in_one_process: list[float], name: str
) -> None:
    why = ENGINES[name].available()
    if why is not None:
        pytest.skip(why)
    hostile = "it's; $(touch no) `touch no` *"
    words = ["--engine", name, "--hosts", "h1,h2", "--interface", "eth0", cluster.training, "two", hostile]
    done = cluster.hasten("run", "--no-plan", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = cluster.told("two")
    check_ranks(ranks, in_one_process, 2)
    assert [told["host"] for told in ranks] == ["h1", "h2"]
    assert [told["words"] for told in ranks] == [[hostile]] * 2
    assert not (cluster.folder / "no").exists()


def test_a_rank_that_fails_ends_the_others(cluster: Cluster) -> None:
    why = ENGINES["openmpi"].available()
    if why is not None:
        pytest.skip(why)
    cluster.write(
        "train.py",
        "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(9)\ntime.sleep(600)\n",
    )
    done = cluster.hasten("run", "--no-plan", "--engine", "openmpi", "--hosts", "h1,h2", "train.py")
    assert done.returncode == 9, done.stderr
