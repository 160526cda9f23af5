"""``hasten run --nproc-per-node N``: which ranks are started, and what is told before any is."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from hasten.launch.shares import shares
from hasten.launch.unranked import OURS
from hasten.machine import this_machine

from .conftest import Project

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
TELLS = """
import json, os, sys
from pathlib import Path
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMP_NUM_THREADS".split()
told = {name: os.environ.get(name) for name in names}
told["cpus"] = sorted(os.sched_getaffinity(0))
told["words"] = sys.argv[1:]
told["hidden"] = [name for name in os.environ if name.startswith("HASTEN")]
Path(f"told-{os.environ['RANK']}.json").write_text(json.dumps(told))
"""

pytestmark = [
    pytest.mark.skipif(CPUS < 2, reason="two ranks need two CPUs"),
]


def told_by(project: Project) -> list[dict[str, object]]:
    files = sorted(Path(project.folder).glob("told-*.json"))
    return [json.loads(file.read_text()) for file in files]


def test_each_rank_finds_what_torchrun_would_tell_it(project: Project) -> None:
    project.write("train.py", TELLS)
    project.environment |= dict.fromkeys(OURS, "30")
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py", "--lr", "1")
    assert done.returncode == 0, done.stderr
    first, second = told_by(project)
    assert (first["RANK"], second["RANK"]) == ("0", "1")
    assert (first["LOCAL_RANK"], second["LOCAL_RANK"]) == ("0", "1")
    assert first["WORLD_SIZE"] == second["LOCAL_WORLD_SIZE"] == "2"
    assert first["MASTER_ADDR"] == "127.0.0.1"
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert first["words"] == ["--lr", "1"]
    assert first["hidden"] == []


def test_ranks_have_cores_of_their_own_and_as_many_threads(project: Project) -> None:
    project.write("train.py", TELLS)
    project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    first, second = told_by(project)
    expected = shares(this_machine(), 2)
    everything = sorted(os.sched_getaffinity(0))
    assert [told["cpus"] for told in (first, second)] == [list(s.cpus) or everything for s in expected]
    assert [told["OMP_NUM_THREADS"] for told in (first, second)] == [str(s.threads) for s in expected]


def test_the_users_own_threads_stand(project: Project) -> None:
    project.write("train.py", TELLS)
    project.environment["OMP_NUM_THREADS"] = "3"
    project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    assert [told["OMP_NUM_THREADS"] for told in told_by(project)] == ["3", "3"]


def test_one_rank_takes_our_place(project: Project) -> None:
    project.write("train.py", TELLS)
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "1", "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    (told,) = told_by(project)
    assert (told["RANK"], told["WORLD_SIZE"]) == ("0", "1")


def test_a_number_that_does_not_fit_is_one_line(project: Project) -> None:
    project.write("train.py", TELLS)
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "1000", "train.py")
    assert (done.returncode, done.stderr.count("\n"), told_by(project)) == (2, 1, [])
    assert "so choose at most" in done.stderr


def test_a_port_that_is_taken_is_one_line(project: Project) -> None:
    project.write("train.py", TELLS)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        project.environment["MASTER_PORT"] = str(other.getsockname()[1])
        done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    assert (done.returncode, done.stderr.count("\n"), told_by(project)) == (2, 1, [])
    assert "taken by another program: unset it" in done.stderr


def test_a_failing_rank_gives_its_exit_code(project: Project) -> None:
    project.write(
        "train.py", "import os, sys, time\nif os.environ['RANK'] == '1':\n    sys.exit(9)\ntime.sleep(600)\n"
    )
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    assert done.returncode == 9
    assert done.stderr.endswith("hasten: rank 1 of 2 ended with exit code 9; the other ranks were ended\n")
    assert project.left_over() == []


NAMES_BACKENDS = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
others = [dist.new_group(backend=name) for name in (None, "ccl", "mpi")]
print([dist.get_backend(), *(dist.get_backend(group) for group in others)])
ones = torch.ones(3)
dist.all_reduce(ones, group=others[1])
print(ones.tolist())
"""


@pytest.mark.thorough
def test_one_backend_stands_in_for_all_that_are_named(project: Project) -> None:
    project.write("train.py", NAMES_BACKENDS)
    words = ["run", "--no-plan", "--nproc-per-node", "1", "--backend", "shm", "train.py"]
    done = project.hasten(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['shm', 'shm', 'shm', 'shm']\n[1.0, 1.0, 1.0]\n"


def test_modules_are_started_as_well(project: Project) -> None:
    project.write("package/__init__.py", "")
    project.write("package/train.py", TELLS)
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "-m", "package.train", "--lr", "1")
    assert done.returncode == 0, done.stderr
    assert [told["words"] for told in told_by(project)] == [["--lr", "1"]] * 2


SPAWNS = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def train(rank, size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "0"
    print("rank", rank, "of", size, flush=True)
    if os.environ.get("NEVER"):
        dist.init_process_group("gloo", rank=rank, world_size=size)

if __name__ == "__main__":
    mp.spawn(train, args=(2,), nprocs=2)
"""


def test_a_script_that_starts_its_own_ranks_is_started_once(project: Project) -> None:
    project.write("train.py", SPAWNS)
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert "starts the script's own ranks, so it is started once" in done.stderr


def test_a_distributed_script_is_not_divided_by_us(project: Project) -> None:
    project.write("train.py", TELLS)
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "--ranks", "ours", "train.py")
    assert (done.returncode, told_by(project)) == (2, [])
    assert "--ranks ours is for scripts that know of none" in done.stderr


def test_data_parallel_is_told_of_with_what_replaces_it(project: Project) -> None:
    project.write("train.py", "def f():\n    from torch import nn\n    nn.DataParallel(nn.Linear(1, 1))\n")
    done = project.hasten("run", "--no-plan", "train.py")
    assert done.returncode == 0
    assert done.stderr.startswith("hasten: train.py:3: nn.DataParallel(nn.Linear(1, 1)) copies the model")
    assert "model = DistributedDataParallel(model)" in done.stderr


# ---- under another launcher
def test_a_rank_of_mpirun_finds_torchruns_names(project: Project) -> None:
    project.write("train.py", TELLS)
    project.environment |= {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    done = project.hasten("run", "train.py")
    assert (done.returncode, done.stderr) == (0, "")  # rank 0 speaks for all
    (told,) = told_by(project)
    assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"]) == ("1", "2", "1")
    assert told["MASTER_ADDR"] == "127.0.0.1"


def test_no_ranks_are_started_below_a_launchers(project: Project) -> None:
    project.write("train.py", TELLS)
    project.environment |= {"PMI_RANK": "0", "PMI_SIZE": "4"}
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "train.py")
    assert (done.returncode, told_by(project)) == (2, [])
    assert "mpiexec started this as rank 0 of 4 already: leave out --nproc-per-node" in done.stderr


def test_many_copies_of_one_training_are_remarked_upon(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.environment |= {"PMI_RANK": "0", "PMI_SIZE": "4"}
    done = project.hasten("run", "--no-plan", "train.py")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "each of mpiexec's 4 ranks trains all of it" in done.stderr


BY_THEMSELVES = {
    "a process group": "import torch.distributed as dist\ndist.init_process_group('gloo')\n",
    "a variable": "import os\nrank = os.environ['RANK']\n",
    "a trainer": "from transformers import Trainer\nTrainer(model=None).train()\n",
    "Lightning": "import lightning as L\nL.Trainer(devices=2).fit(None)\n",
    "ranks of its own": "import torch.multiprocessing as mp\nimport torch.distributed as dist\n"
    "mp.spawn(print, nprocs=2)\ndist.init_process_group('gloo', rank=0, world_size=1)\n",
}


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("kind", BY_THEMSELVES)
def test_processes_are_refused_before_the_script_starts(project: Project, kind: str) -> None:
    project.write("train.py", "open('started', 'w')\n" + BY_THEMSELVES[kind])
    done = project.hasten("run", "--use", "processes:count=2", "train.py")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "processes does not apply: train.py:" in last
    assert "--without processes" in last
    assert not (project.folder / "started").exists()
