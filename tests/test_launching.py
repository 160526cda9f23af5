"""What is started for --nproc-per-node, on paper; and what is refused before."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.inside.job import Job
from hasten.launching import OwnRanks, check_backends, ranks_of_their_own
from hasten.records.diagnosis import Distribution
from hasten.records.machine import Core
from hasten.records.plan import Plan

from .bench.made_up import machine

CORES = tuple(Core((n,)) for n in range(4))
FOUR = machine(cores=CORES)
GPUS = machine(cores=CORES, accelerators=("NVIDIA H200", "NVIDIA H200"))


def test_ranks_of_the_scripts_own_see_all_gpus() -> None:
    found = Distribution("ranks", "t.py:1: init_process_group('nccl')", ("nccl",))
    ranks = ranks_of_their_own(Job(("t.py",), GPUS), OwnRanks(2, found), {})
    assert all("CUDA_VISIBLE_DEVICES" not in rank.environment for rank in ranks)
    with pytest.raises(UsageError, match="there are 2 GPUs"):
        ranks_of_their_own(Job(("t.py",), GPUS), OwnRanks(3, found), {})


def test_threads_measured_for_one_process_are_left_out() -> None:
    found = Distribution("ranks", "t.py:1: init_process_group('gloo')", ("gloo",))
    plan = Plan({"threads": {"count": 4}, "bf16": {}})
    ranks = ranks_of_their_own(Job(("t.py",), FOUR, plan), OwnRanks(2, found), {})
    assert [list(rank.job.plan.techniques) for rank in ranks] == [["bf16"]] * 2
    few = Plan({"threads": {"count": 1}})
    assert ranks_of_their_own(Job(("t.py",), FOUR, few), OwnRanks(2, found), {})[0].job.plan == few


def test_a_rank_finds_the_names_that_its_script_reads() -> None:
    found = Distribution("ranks", "t.py:1: os.environ['PMI_RANK']", reads=("PMI_RANK", "PMI_SIZE"))
    _, second = ranks_of_their_own(Job(("t.py",), FOUR), OwnRanks(2, found, "gloo"), {})
    told = second.environment
    assert (told["PMI_RANK"], told["PMI_SIZE"], told["RANK"]) == ("1", "2", "1")
    assert second.job.own_group is not None
    assert second.job.own_group.backend == "gloo"


def test_nccl_without_a_gpu_is_told_with_what_can_stand_in() -> None:
    found = Distribution("ranks", "t.py:3: dist.init_process_group('nccl')", ("nccl",))
    with pytest.raises(UsageError, match="there is no GPU: let another stand in with --backend gloo"):
        check_backends(found, "", FOUR)
    check_backends(found, "", GPUS)
    check_backends(found, "gloo", FOUR)
