"""Slurm with daemons of its own on two hosts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .cluster import Cluster, until
from .conftest import check_ranks
from .faults.bed import OWN, Bed
from .faults.table import check_hang


@pytest.fixture
def on_slurm(cluster: Cluster, slurm: dict[str, str]) -> Cluster:
    cluster.environment |= slurm
    return cluster


BY_SLURM = ("run", "--no-plan", "--engine", "slurm", "--nnodes", "2")


def test_two_hosts_by_srun_train_what_one_process_trains(
    on_slurm: Cluster, in_one_process: list[float]
) -> None:
    on_slurm.environment["MADE_UP_TOKEN"] = "not-to-be-shown"
    hostile = "it's; $(touch no) `touch no` \n*"
    words = ["--nproc-per-node", "1", "--env", "MADE_UP_TOKEN", on_slurm.training, "two", hostile]
    done = on_slurm.hasten(*BY_SLURM, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = on_slurm.told("two")
    check_ranks(ranks, in_one_process, 2)
    assert [told["host"] for told in ranks] == ["h1", "h2"]
    assert [told["words"] for told in ranks] == [[hostile]] * 2
    assert [told["MADE_UP_TOKEN"] for told in ranks] == ["not-to-be-shown"] * 2
    assert not (on_slurm.folder / "no").exists()
    (script,) = Path(on_slurm.folder, ".hasten", "launches").glob("*.sbatch")
    assert "not-to-be-shown" not in script.read_text() + done.stdout + done.stderr


def test_torchrun_inside_begins_anew(on_slurm: Cluster, in_one_process: list[float]) -> None:
    done = on_slurm.hasten(*BY_SLURM, "--max-restarts", "2", on_slurm.training, "two", "dies")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (on_slurm.folder / "died").exists()
    check_ranks(on_slurm.told("two"), in_one_process, 2)


def test_a_rank_that_fails_ends_the_job_and_what_was_printed_is_shown(on_slurm: Cluster) -> None:
    on_slurm.write(
        "train.py",
        "import os, time\nprint('begun', flush=True)\n"
        "if os.environ['RANK'] == '1':\n    raise SystemExit(9)\ntime.sleep(600)\n",
    )
    done = on_slurm.hasten(*BY_SLURM, "train.py")
    assert done.returncode  # srun takes the highest of all tasks, those that it ended included
    assert "begun" in done.stdout
    assert "task 1: Exited with exit code 9" in done.stdout
    assert f"hasten: the run failed with exit code {done.returncode} (job " in done.stderr


@pytest.mark.thorough
def test_a_rank_that_hangs_is_named_and_its_stack_shown(on_slurm: Cluster) -> None:
    bed = Bed(on_slurm, OWN)
    bed.go_on()
    done = on_slurm.hasten(*BY_SLURM, "--group-timeout", "10", OWN, "hangs")
    check_hang(done.returncode, done.stdout)


def test_sigterm_takes_the_job_out_of_the_queue(on_slurm: Cluster) -> None:
    running = on_slurm.start_hasten(*BY_SLURM, on_slurm.training, "two", "waits")
    until(lambda: len(list(on_slurm.folder.glob("two-*.waits"))) == 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.ended().returncode == 143
    until(lambda: on_slurm.run("squeue", "--noheader").stdout == "")
