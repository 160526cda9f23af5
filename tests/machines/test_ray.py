"""Ray on two hosts, in an environment that has it: ``make test-ray``."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster
from .conftest import check_ranks

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed here: make test-ray"
)


@pytest.fixture
def on_ray(cluster: Cluster) -> Iterator[Cluster]:
    """A head on h1 and a node on h2, both asked for the same token."""
    ray = str(Path(sys.executable).with_name("ray"))
    token = cluster.write("token", "0123456789abcdef" * 4)
    token.chmod(0o600)
    short = Path("/tmp", f"hasten-ray-{cluster.hosts.prefix}")  # its sockets have short names
    cluster.environment |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "RAY_ADDRESS": f"{cluster.hosts.address('h1')}:6379",
    }
    common = ("--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats")
    head = (*("--head", "--port", "6379", "--include-dashboard", "false"), *common)
    try:
        for name, words in (("h1", head), ("h2", ("--address", cluster.environment["RAY_ADDRESS"], *common))):
            place = ("--node-ip-address", cluster.hosts.address(name), "--temp-dir", str(short / name))
            done = cluster.run(ray, "start", *words, *place, host=name)
            assert done.returncode == 0, done.stdout + done.stderr
        yield cluster
    finally:
        for name in cluster.hosts.names:
            cluster.hosts.end_all(name, "ray")
        shutil.rmtree(short, ignore_errors=True)


def test_two_hosts_train_what_one_process_trains(on_ray: Cluster, in_one_process: list[float]) -> None:
    on_ray.environment["MADE_UP_TOKEN"] = "not-to-be-shown"
    hostile = "it's; $(touch no) \n*"
    words = ["--env", "MADE_UP_TOKEN", on_ray.training, "two", hostile]
    done = on_ray.hasten("run", "--no-plan", "--engine", "ray", "--nnodes", "2", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = on_ray.told("two")
    check_ranks(ranks, in_one_process, 2)
    assert sorted(str(told["host"]) for told in ranks) == ["h1", "h2"]
    assert [told["words"] for told in ranks] == [[hostile]] * 2
    assert [told["MADE_UP_TOKEN"] for told in ranks] == ["not-to-be-shown"] * 2
    assert not (on_ray.folder / "no").exists()


def test_a_rank_that_fails_fails_the_run(on_ray: Cluster) -> None:
    on_ray.write("train.py", "import os\nraise SystemExit(9 * int(os.environ['RANK']))\n")
    done = on_ray.hasten("run", "--no-plan", "--engine", "ray", "--nnodes", "2", "train.py")
    assert done.returncode == 1
    assert "torchrun on h" in done.stdout + done.stderr
