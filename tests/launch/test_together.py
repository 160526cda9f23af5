"""Ranks of ours on paper: what is told to each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.inside.job import Job
from hasten.launch.together import Meeting, Wish, meeting, members
from hasten.records.machine import Core, Machine
from hasten.records.ranks import Findings

from ..bench.made_up import machine

CORES = tuple(Core((n,)) for n in range(4))
FOUR = machine(cores=CORES)
GPUS = machine(cores=CORES, accelerators=("NVIDIA H200", "NVIDIA H200"))
PLACE = Meeting("file:///proc/self/fd/9", (7, 8, 9))
ON_GPU = Findings(device="cuda")


def job(where: Machine = FOUR) -> Job:
    return Job(("train.py",), where, seed=5)


def test_they_differ_in_number_and_cores_alone() -> None:
    first, second = members(job(), Wish(2), PLACE, Findings(), {"HOME": "/h"})
    assert first.job.ranks is not None
    assert second.job.ranks is not None
    assert (first.job.ranks.rank, second.job.ranks.rank) == (0, 1)
    assert (first.job.ranks.cores, second.job.ranks.cores) == ((0, 1), (2, 3))
    assert (first.job.ranks.world_size, first.job.ranks.backend) == (2, "shm")
    assert first.inherits == (7, 8, 9)
    assert first.environment == second.environment
    assert first.environment == {"HOME": "/h", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "5"}


def test_on_gpus_each_sees_one_of_the_users_own_list() -> None:
    ranks = members(job(GPUS), Wish(2), PLACE, ON_GPU, {"CUDA_VISIBLE_DEVICES": "1,0"})
    assert [rank.environment["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["1", "0"]
    assert {rank.job.ranks.backend for rank in ranks if rank.job.ranks is not None} == {"nccl"}


def test_what_trains_on_cpus_needs_no_gpu_for_each() -> None:
    ranks = members(job(GPUS), Wish(3), PLACE, Findings(), {})
    assert all("CUDA_VISIBLE_DEVICES" not in rank.environment for rank in ranks)
    with pytest.raises(UsageError, match="there are 2 GPUs"):
        members(job(GPUS), Wish(3), PLACE, ON_GPU, {})


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memory without a name")
def test_they_meet_where_nothing_stays_behind(tmp_path: Path) -> None:
    with meeting(str(tmp_path)) as place:
        assert place.store == f"file:///proc/self/fd/{place.memory[-1]}"
        assert list(tmp_path.iterdir()) == []
        for number in place.memory:
            os.fstat(number)
    for number in place.memory:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_without_such_memory_in_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with meeting(str(tmp_path)) as place:
        assert place.store.startswith(f"file://{tmp_path}/")
        assert place.memory == ()
    assert list(tmp_path.iterdir()) == []
