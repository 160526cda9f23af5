"""``hasten run --engine``: what is refused, what --render shows, and torchrun on this machine.

Several hosts are in tests/machines.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

import pytest

from hasten.cli import engine_options
from hasten.launch.engines.catalog import ENGINES
from hasten.launch.shares import shares
from hasten.machine import this_machine

from .conftest import Project
from .test_run_ranks import CPUS, TELLS, told_by

DISTRIBUTED = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


def test_the_option_knows_all_engines() -> None:
    assert tuple(ENGINES) == engine_options.ENGINES


REFUSED = {
    "hosts that come and go for a script that knows of no ranks": (
        ["--nnodes", "1:2", "--rdzv-endpoint", "h1:1"],
        "train.py knows of no ranks, so hasten divides its batches among a fixed number of hosts",
    ),
    "ranks of no engine": (["--max-restarts", "2"], "--max-restarts is for ranks that an engine starts"),
    "hosts without names": (
        ["--nnodes", "2", "--ranks", "script"],
        "say which hosts, by --hosts h1,h2 or --hostfile FILE",
    ),
    "hosts by two ways": (["--hosts", "h1", "--hostfile", "f"], "--hosts and --hostfile both name hosts"),
    "another number of hosts": (
        ["--nnodes", "3", "--hosts", "h1,h2", "--ranks", "script"],
        "--nnodes 3 and 2 hosts",
    ),
    "elastic on Slurm": (
        ["--engine", "slurm", "--nnodes", "1:4"],
        "the engine slurm does not take --nnodes 1:4: it starts a fixed number of hosts",
    ),
    "other hosts than this": (["--engine", "local", "--nnodes", "2"], "the engine local does not take"),
    "a host that is an option": (["--hosts", "-oProxyCommand=id"], "'-oProxyCommand=id' is not a host"),
    "an invalid port": (
        ["--nnodes", "2", "--rdzv-endpoint", "h1:99999", "--ranks", "script"],
        "expected HOST:PORT, the port from 1 to 65535",
    ),
    "a place to meet with a user": (["--rdzv-endpoint", "me@h1:1"], "without a user"),
    "a place to meet that is an option": (["--rdzv-endpoint", "-x:1"], "'-x' is not a host"),
    "two places to meet": (
        ["--rdzv-endpoint", "h1:1", "--master-addr", "h2"],
        "--rdzv-endpoint and --master-addr both say where ranks meet",
    ),
    "a port of no host": (["--master-port", "29500"], "--master-port without --master-addr"),
    "a variable that is not set": (["--hosts", "h1,h2", "--env", "NOT_SET_HERE"], "it is not set here"),
    "an invalid variable": (["--env", "A-B=1"], "expected NAME or NAME=VALUE"),
    "more at least than at most": (["--nnodes", "4:2"], "'4:2' has more as the least"),
    "no number of hosts": (["--nnodes", "all"], "expected a whole number from 1 to 4,096, found 'all'"),
    "an interface that is a path": (["--interface", "../eth0"], "expected the name of a network's interface"),
    "a job's name with a space": (["--rdzv-id", "my job"], "expected letters, digits and -"),
    "an image that is an option": (["--image", "--privileged"], "expected the name of an image"),
    "an image for no container": (["--engine", "torchrun", "--image", "i"], "it starts no container"),
    "what does not wait": (["--engine", "openmpi", "--detach"], "does not take --detach"),
    "an unknown engine": (["--engine", "torchron"], "invalid choice: 'torchron'"),
    "an unknown technique": (["--engine", "slurm", "--use", "magic"], "magic"),
    "a plan that is not there": (["--engine", "slurm", "--plan", "missing.toml"], "missing.toml"),
    "a hostfile that is not there": (["--hostfile", "missing"], "missing cannot be read"),
}


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_before_anything_starts(refused: Callable[..., str], case: str) -> None:
    words, why = REFUSED[case]
    assert why in refused("run", *words, "train.py")


def test_an_engine_that_is_not_here_is_told_with_what_to_do(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    words = ["--engine", "slurm", "--nnodes", "2", "--ranks", "script"]
    said = refused("run", *words, "train.py")
    assert "the engine slurm cannot be used here: there is no sbatch on PATH" in said


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--rdzv-endpoint", "h1:1234"], "h1:1234"),
        (["--rdzv_endpoint=h1"], "h1:29400"),
        (["--master_addr", "h1", "--master_port", "1234", "--node_rank=1"], "h1:1234"),
        (["--master-addr", "fd00::1"], "[fd00::1]:29400"),
        (["--rdzv-endpoint", "[fd00::1]:1234"], "[fd00::1]:1234"),
    ],
)
def test_a_place_to_meet_is_said_as_torchrun_has_it(project: Project, words: list[str], place: str) -> None:
    project.write("train.py", DISTRIBUTED)
    done = project.hasten("run", "--nnodes", "2", *words, "--render", "train.py")
    assert done.returncode == 0, done.stderr
    typed = shlex.split(done.stdout.splitlines()[-1])
    assert typed[typed.index("--rdzv-endpoint") + 1] == place


QUOTED = shlex.quote("it's")


def test_render_starts_nothing_and_leaves_nothing(project: Project) -> None:
    project.write("train.py", DISTRIBUTED)
    project.environment["A_TOKEN"] = "not-to-be-shown"
    words = ["--engine", "slurm", "--nnodes", "4", "--nproc_per_node", "2", "--env", "A_TOKEN", "--render"]
    done = project.hasten("run", *words, "--use", "bf16", "train.py", "it's")
    assert (done.returncode, done.stderr) == (0, "")
    assert "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=2\n" in done.stdout
    assert f"--use=bf16 train.py {QUOTED}" in done.stdout
    assert "not-to-be-shown" not in done.stdout
    assert sorted(os.listdir(project.folder)) == ["train.py"]


def test_what_may_be_a_secret_does_not_go_along_by_itself(project: Project) -> None:
    project.write("train.py", DISTRIBUTED)
    project.environment |= {"WANDB_API_KEY": "hidden", "NCCL_TOKEN": "hidden", "OMP_NUM_THREADS": "3"}
    done = project.hasten("run", "--hosts", "h1,h2", "--render", "train.py")
    assert "hidden" not in done.stdout
    assert "export OMP_NUM_THREADS=3" in done.stdout


def test_ranks_of_other_hosts_share_a_secret_that_is_not_shown(project: Project) -> None:
    project.write("train.py", DISTRIBUTED)
    project.environment["HASTEN_JOB_TOKEN"] = "not-to-be-shown-0123"
    done = project.hasten("run", "--hosts", "h1,h2", "--render", "train.py")
    assert "HASTEN_JOB_TOKEN" in done.stdout
    assert "not-to-be-shown-0123" not in done.stdout
    by_hand = ["--nnodes", "2", "--rdzv-endpoint", "h1:29400"]
    assert "HASTEN_JOB_TOKEN" not in project.hasten("run", *by_hand, "--render", "train.py").stdout


def test_a_plan_of_somebody_else_comes_to_a_command_line_as_one_word(project: Project) -> None:
    project.write("train.py", DISTRIBUTED)
    name = "a plan; $(touch no).toml"
    project.write(name, "format = 1\n[techniques.fused_optimizer]\n")
    done = project.hasten("run", "--hosts", "h1,h2", "--plan", name, "--render", "train.py")
    assert done.returncode == 0, done.stderr
    assert shlex.quote(f"--plan={project.folder / name}") in done.stdout
    project.write(name, "format = 1\n[techniques.fused_optimizer]\ncommand = 'touch no'\n")
    assert project.hasten("run", "--hosts", "h1,h2", "--plan", name, "--render", "train.py").returncode == 2
    assert not (project.folder / "no").exists()


def test_this_machine_can_be_rendered_too(project: Project) -> None:
    project.write("train.py", "")
    done = project.hasten("run", "--no-plan", "--nproc-per-node", "2", "--render", "train.py")
    assert done.stdout.endswith("rank_entry.py run --no-plan --nproc-per-node=2 train.py\n")


@pytest.mark.skipif(CPUS < 2, reason="two ranks need two CPUs")
def test_torchrun_on_this_machine_starts_ranks_with_cores_of_their_own(project: Project) -> None:
    project.write("train.py", TELLS)
    project.write("torch/__init__.py", "raise RuntimeError('not this one')\n")  # of the script's folder
    words = ["--no-plan", "--engine", "torchrun", "--nproc-per-node", "2"]
    done = project.hasten("run", *words, "train.py", "a b")
    assert done.returncode == 0, done.stderr
    first, second = told_by(project)
    assert (first["RANK"], second["RANK"], first["WORLD_SIZE"]) == ("0", "1", "2")
    assert first["words"] == second["words"] == ["a b"]
    assert first["hidden"] == []
    expected = shares(this_machine(), 2)
    everything = sorted(os.sched_getaffinity(0))
    assert [told["cpus"] for told in (first, second)] == [list(s.cpus) or everything for s in expected]
    assert [told["OMP_NUM_THREADS"] for told in (first, second)] == [str(s.threads) for s in expected]


def test_a_rank_of_another_host_trains_no_copy_of_its_own(project: Project) -> None:
    """Also where a person's torchrun, and no engine of ours, has started it."""
    project.write("train.py", "open('started', 'w')\n")
    project.environment |= {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    done = project.hasten("run", "--no-plan", "train.py")
    assert done.returncode == 2
    assert "the script knows of no ranks, and each of torchrun's 2 would train all of it" in done.stderr
    assert not (project.folder / "started").exists()
