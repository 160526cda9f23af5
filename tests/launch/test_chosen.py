"""What is started for --nproc-per-node, on paper; and what is refused before."""

from __future__ import annotations

import os

import pytest

from hasten.errors import UsageError
from hasten.inside.job import Job
from hasten.launch.chosen import (
    OwnRanks,
    as_one_of_its_host,
    check_backends,
    check_processes,
    little_shared_memory,
    ranks_of_ours,
    ranks_of_their_own,
)
from hasten.launch.ranks_of_plan import Wish
from hasten.launch.rendezvous import Place, private_place
from hasten.records.diagnosis import Distribution
from hasten.records.machine import Core
from hasten.records.plan import Plan
from hasten.records.ranks import Findings

from ..bench.made_up import machine
from ..machine.topologies import recorded

CORES = tuple(Core((n,)) for n in range(4))
FOUR = machine(cores=CORES)
GPUS = machine(cores=CORES, accelerators=("NVIDIA H200", "NVIDIA H200"))
PLACE = Place("file:///proc/self/fd/9", (7, 8), (9, 7, 8))
FINDINGS = Findings()


def test_ranks_of_ours_differ_in_number_and_cores_alone() -> None:
    first, second = ranks_of_ours(Job(("t.py",), FOUR), Wish(2), {"HOME": "/h"}, FINDINGS, PLACE)
    assert (first.cpus, second.cpus) == ((0, 1), (2, 3))
    assert first.inherits == (9, 7, 8)
    assert first.job.ranks is not None
    assert second.job.ranks is not None
    assert (first.job.ranks.rank, second.job.ranks.rank) == (0, 1)
    assert second.job.ranks.world_size == 2
    assert second.job.ranks.backend == "shm"
    assert second.job.ranks.findings == FINDINGS
    assert first.job.seed == second.job.seed is not None
    assert first.environment == second.environment
    assert sorted(first.environment) == ["HOME", "OMP_NUM_THREADS", "PYTHONHASHSEED"]


def test_each_rank_of_ours_sees_one_gpu() -> None:
    ranks = ranks_of_ours(Job(("t.py",), GPUS), Wish(2), {"CUDA_VISIBLE_DEVICES": "1,0"}, FINDINGS, PLACE)
    assert [rank.environment["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["1", "0"]
    assert {rank.job.ranks.backend for rank in ranks if rank.job.ranks is not None} == {"nccl"}


def test_ranks_of_the_scripts_own_see_all_gpus() -> None:
    found = Distribution("ranks", "t.py:1: init_process_group('nccl')", ("nccl",))
    ranks = ranks_of_their_own(Job(("t.py",), GPUS), OwnRanks(2, found), {})
    assert all("CUDA_VISIBLE_DEVICES" not in rank.environment for rank in ranks)
    with pytest.raises(UsageError, match="there are 2 GPUs"):
        ranks_of_their_own(Job(("t.py",), GPUS), OwnRanks(3, found), {})


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match=r"there are 2 GPUs .* or train on CPUs"):
        ranks_of_ours(Job(("t.py",), GPUS), Wish(3), {}, FINDINGS, PLACE)
    ranks = ranks_of_ours(Job(("t.py",), GPUS), Wish(3), {"CUDA_VISIBLE_DEVICES": ""}, FINDINGS, PLACE)
    assert {rank.job.ranks.backend for rank in ranks if rank.job.ranks is not None} == {"shm"}


def test_threads_measured_for_one_process_are_left_out() -> None:
    plan = Plan({"threads": {"count": 4}, "bf16": {}})
    ranks = ranks_of_ours(Job(("t.py",), FOUR, plan), Wish(2), {}, FINDINGS, PLACE)
    assert [list(rank.job.plan.techniques) for rank in ranks] == [["bf16"]] * 2
    few = Plan({"threads": {"count": 1}})
    assert ranks_of_ours(Job(("t.py",), FOUR, few), Wish(2), {}, FINDINGS, PLACE)[0].job.plan == few


def test_a_layout_says_what_each_rank_is_bound_to_and_how_many_threads_it_has() -> None:
    here = recorded("xeon-2-sockets")
    plan = Plan({"threads": {"count": 1}, "bf16": {}})
    wish = Wish(2, threads=5, bind="numa")
    first, second = ranks_of_ours(Job(("t.py",), here, plan), wish, {}, FINDINGS, PLACE)
    assert (first.cpus, second.cpus) == (tuple(range(10)), tuple(range(10, 20)))
    assert first.environment["OMP_NUM_THREADS"] == second.environment["OMP_NUM_THREADS"] == "5"
    assert list(first.job.plan.techniques) == ["bf16"]
    assert {core.node for core in second.job.machine.cores} == {1}


def test_a_layout_that_cannot_be_is_told_with_the_reason() -> None:
    with pytest.raises(
        UsageError, match="processes bound by numa: 2 processes were asked for, each on a NUMA"
    ):
        ranks_of_ours(Job(("t.py",), FOUR), Wish(2, threads=1, bind="numa"), {}, FINDINGS, PLACE)


def test_a_rehearsal_does_not_depend_on_where_ranks_lie() -> None:
    assert Wish(2, "shm", True, 5, "numa").rehearsed == Wish(2, "shm", True)


def test_a_rank_finds_the_names_that_its_script_reads() -> None:
    found = Distribution("ranks", "t.py:1: os.environ['PMI_RANK']", reads=("PMI_RANK", "PMI_SIZE"))
    _, second = ranks_of_their_own(Job(("t.py",), FOUR), OwnRanks(2, found, "gloo"), {})
    told = second.environment
    assert (told["PMI_RANK"], told["PMI_SIZE"], told["RANK"]) == ("1", "2", "1")
    assert second.job.own_group is not None
    assert second.job.own_group.backend == "gloo"


def test_nccl_without_a_gpu_is_told_with_what_can_stand_in() -> None:
    found = Distribution("ranks", "t.py:3: dist.init_process_group('nccl')", ("nccl",))
    with pytest.raises(UsageError, match="there is no GPU: use another with --backend gloo"):
        check_backends(found, "", FOUR)
    check_backends(found, "", GPUS)
    check_backends(found, "gloo", FOUR)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memory without a name")
def test_a_private_place_leaves_nothing_behind() -> None:
    with private_place() as place:
        assert len(place.inherited) == 3
        assert place.memory == place.inherited[1:]
        for number in place.inherited:
            os.fstat(number)
    for number in place.inherited:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_little_shared_memory_is_told_with_what_helps() -> None:
    assert little_shared_memory(2, 64 * 2**20) == ""
    assert little_shared_memory(2, None) == ""
    said = little_shared_memory(4, 64 * 2**20)
    assert said.startswith("/dev/shm has 64 MB left for 4 ranks")
    assert "--shm-size=1g" in said


BY_ITSELF = {
    "ranks": Distribution("ranks", "t.py:7: Trainer(model)"),
    "spawns": Distribution("spawns", "t.py:7: mp.spawn(main)"),
}
TWO = Plan({"processes": {"count": 2}})


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("ranks", ["", "ours", "script"])
@pytest.mark.parametrize("kind", BY_ITSELF)
def test_processes_are_refused_where_the_script_is_distributed_itself(kind: str, ranks: str) -> None:
    with pytest.raises(UsageError, match=r"^processes does not apply: t\.py:7: .*--without processes"):
        check_processes(TWO, BY_ITSELF[kind], ranks)


@pytest.mark.attack("arguments")
def test_processes_are_refused_where_the_user_says_that_it_is() -> None:
    with pytest.raises(UsageError, match="--ranks script says"):
        check_processes(TWO, Distribution(), "script")


@pytest.mark.parametrize(
    "plan", [Plan({}), Plan({"processes": {"count": 1}}), Plan({"threads": {"count": 1}})]
)
def test_other_plans_apply_in_ranks_of_the_scripts_own(plan: Plan) -> None:
    check_processes(plan, BY_ITSELF["ranks"])


def test_processes_apply_to_a_script_that_knows_of_none() -> None:
    check_processes(TWO, Distribution())


@pytest.mark.parametrize(("number", "cpus"), [(0, (0, 1)), (1, (2, 3))])
def test_ranks_of_an_engine_have_cores_of_their_own(number: int, cpus: tuple[int, ...]) -> None:
    job, bound, threads = as_one_of_its_host(
        Job(("t.py",), FOUR, Plan({"threads": {"count": 4}})), number, 2, {}
    )
    assert threads == {"OMP_NUM_THREADS": "2"}
    assert bound == cpus
    assert [core.cpus for core in job.machine.cores] == [(cpu,) for cpu in cpus]
    assert "threads" not in job.plan.techniques  # measured for more cores than a rank has
