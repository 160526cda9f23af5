"""docs/machines.md, typed as it stands: on two hosts it trains what one process trains."""

from __future__ import annotations

import shlex

import pytest

from .cluster import Cluster
from .conftest import check_ranks
from .page import Block, blocks

HOSTILE = "it's; $(touch no) `touch no` *"
ON_EACH = ", on each host"
MISSING = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.hydra"}
RUN = [block for block in blocks() if block.how.startswith("run: ") and block.name != "ray"]


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.name)
def test_a_block_trains_what_one_process_trains(
    cluster: Cluster, in_one_process: list[float], block: Block, request: pytest.FixtureRequest
) -> None:
    cluster.need(MISSING.get(block.name, "sh"))
    if block.name == "slurm":
        cluster.environment |= request.getfixturevalue("slurm")
    # the script that the page speaks of is yours; ours says where it leaves what it found
    typed = block.text.replace("train.py", f"{cluster.training} two {shlex.quote(HOSTILE)}")
    hosts = ("h1", "h2") if block.name.endswith(ON_EACH) else ("h1",)
    runs = [cluster.start("sh", "-c", typed, host=host) for host in hosts]
    for run in runs:
        done = run.ended()
        assert done.returncode == 0, done.stdout + done.stderr
    if block.name == "render":
        assert cluster.told("two") == []
        return
    ranks = cluster.told("two")
    check_ranks(ranks, in_one_process, 2, hosts=1 if block.name == "one" else 2)
    assert [told["words"] for told in ranks] == [[HOSTILE]] * 2
    assert not (cluster.folder / "no").exists()
