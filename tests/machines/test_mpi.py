"""mpirun on two hosts, by ssh. That ranks train together is in test_page.py."""

from __future__ import annotations

from .cluster import Cluster


def test_a_rank_that_fails_ends_the_others(cluster: Cluster) -> None:
    cluster.need("mpirun.openmpi")
    cluster.write(
        "train.py",
        "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(9)\ntime.sleep(600)\n",
    )
    done = cluster.hasten("run", "--no-plan", "--engine", "openmpi", "--hosts", "h1,h2", "train.py")
    assert done.returncode == 9, done.stderr
