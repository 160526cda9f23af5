"""torchrun on two hosts: started by ssh from a list, and by hand on each."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from ..processes import started_with
from .cluster import Cluster, until
from .conftest import check_ranks

KNOWS_OF_NO_RANKS = """
import json, torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(61, 6)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(3):
    for batch, target in DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}", flush=True)
with open("model.json", "w") as file:
    json.dump(torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist(), file)
"""
OWN_RANKS = KNOWS_OF_NO_RANKS.replace(
    "optimizer = ",
    """import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = """,
)
DIES_ONCE = """        optimizer.step()
        if epoch == 2 and not os.path.exists("died"):
            open("died", "w").close()
            os.kill(os.getpid(), 9)
"""
BY_SSH = ("run", "--engine", "torchrun", "--hosts", "h1,h2", "--nproc_per_node", "1")


def test_two_hosts_by_ssh_train_what_one_process_trains(
    cluster: Cluster, in_one_process: list[float]
) -> None:
    cluster.environment["MADE_UP_TOKEN"] = "not-to-be-shown"
    hostile = "it's; $(touch no) \n*"
    words = [*BY_SSH, "--use", "fused_optimizer", "--env", "MADE_UP_TOKEN", cluster.training, "two", hostile]
    done = cluster.hasten(*words)
    assert done.returncode == 0, done.stderr
    ranks = cluster.told("two")
    check_ranks(ranks, in_one_process, 2)
    assert sorted(str(told["host"]) for told in ranks) == ["h1", "h2"]
    assert [told["words"] for told in ranks] == [[hostile]] * 2
    assert [told["MADE_UP_TOKEN"] for told in ranks] == ["not-to-be-shown"] * 2
    assert "not-to-be-shown" not in done.stdout + done.stderr
    assert not (cluster.folder / "no").exists()
    assert "hasten: training under the techniques named by --use: fused_optimizer" in done.stderr


def test_a_script_that_knows_of_no_ranks_trains_what_one_process_trains(cluster: Cluster) -> None:
    cluster.write("train.py", KNOWS_OF_NO_RANKS)
    alone = cluster.run(sys.executable, "train.py")
    assert alone.returncode == 0, alone.stderr
    expected = json.loads((cluster.folder / "model.json").read_text())
    (cluster.folder / "model.json").unlink()
    done = cluster.hasten(*BY_SSH, "--no-plan", "train.py")
    assert done.returncode == 0, done.stderr
    assert "2 ranks on 2 hosts (h1: 1, h2: 1), each with its part of every batch" in done.stderr
    assert done.stdout == alone.stdout
    found = json.loads((cluster.folder / "model.json").read_text())
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


def test_a_rank_that_is_killed_begins_anew_from_the_checkpoint(
    cluster: Cluster, in_one_process: list[float]
) -> None:
    words = [*BY_SSH, "--no-plan", "--max-restarts", "2", cluster.training, "two", "dies"]
    done = cluster.hasten(*words)
    assert done.returncode == 0, done.stderr
    assert (cluster.folder / "died").exists()
    ranks = cluster.told("two")
    assert all(told["first_step"] for told in ranks)
    check_ranks(ranks, in_one_process, 2)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(KNOWS_OF_NO_RANKS, id="none"),
        pytest.param(OWN_RANKS, id="own ranks", marks=pytest.mark.thorough),
    ],
)
def test_a_script_without_resume_code_goes_on_from_the_checkpoint(cluster: Cluster, script: str) -> None:
    cluster.write("train.py", script)
    whole = cluster.hasten(*BY_SSH, "--no-plan", "train.py")
    assert whole.returncode == 0, whole.stderr
    expected = (cluster.folder / "model.json").read_bytes()
    (cluster.folder / "model.json").unlink()
    dying = script.replace("        optimizer.step()\n", DIES_ONCE).replace("json, ", "json, os, ")
    cluster.write("train.py", dying)
    kept = ("--checkpoint", "kept", "--every", "4steps", "--max-restarts", "1")
    done = cluster.hasten(*BY_SSH, "--no-plan", *kept, "train.py")
    assert done.returncode == 0, done.stderr
    assert "going on after step 1" in done.stderr  # 12 or 16: they are written in the background
    assert (cluster.folder / "model.json").read_bytes() == expected


@pytest.mark.thorough
def test_where_a_host_is_lost_the_other_goes_on(cluster: Cluster, in_one_process: list[float]) -> None:
    words = ["--no-plan", "--nnodes", "1:2", "--max-restarts", "3", cluster.training, "two", "loses"]
    running = cluster.start_hasten("run", "--hosts", "h1,h2", "--group-timeout", "20", *words)
    until(lambda: (cluster.folder / "halfway").exists())
    cluster.hosts.end_all("h2", "torchrun_entry.py")
    cluster.write("lost", "")
    done = running.ended()
    assert done.returncode == 0, done.stderr
    (told,) = cluster.told("two")
    assert (told["host"], told["WORLD_SIZE"]) == ("h1", "1")
    assert told["first_step"]
    assert told["parameters"] == pytest.approx(in_one_process, rel=0, abs=1e-12)


def test_a_rank_that_fails_ends_all_hosts(cluster: Cluster) -> None:
    cluster.write(
        "train.py",
        "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(9)\ntime.sleep(600)\n",
    )
    cluster.environment["PYTHONHASHSEED"] = str(
        id(cluster) % 4_000_000_000
    )  # is passed on, so the hosts can be told apart
    done = cluster.hasten(*BY_SSH, "--no-plan", "--ranks", "script", "train.py")
    assert done.returncode == 1
    assert "hasten: the run failed with exit code 1 (h" in done.stderr
    assert started_with("PYTHONHASHSEED", cluster.environment["PYTHONHASHSEED"]) == []


def test_sigterm_leaves_nothing_on_any_host(cluster: Cluster) -> None:
    cluster.environment["PYTHONHASHSEED"] = str(id(cluster) % 4_000_000_000)
    running = cluster.start_hasten(*BY_SSH, "--no-plan", cluster.training, "two", "waits")
    until(lambda: len(list(cluster.folder.glob("two-*.waits"))) == 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.ended().returncode == 143
    until(lambda: started_with("PYTHONHASHSEED", cluster.environment["PYTHONHASHSEED"]) == [])
