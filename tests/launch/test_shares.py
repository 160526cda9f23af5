"""Each rank's share of the machine."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.inside.techniques.support.process_layouts import resolve
from hasten.launch.shares import shares, shares_of
from hasten.records.machine import Core, Machine

from ..bench.made_up import machine


def two_sockets() -> Machine:
    """Eight cores of two threads each, numbered as Linux does: the second threads come last."""
    cores = tuple(Core((n, n + 8), socket=n // 4, node=n // 4) for n in range(8))
    return machine(cores=cores, physical_cores=8, logical_cpus=16)


def test_neighbours_stay_together_with_their_threads() -> None:
    first, second = shares(two_sockets(), 2)
    assert first.cpus == (0, 8, 1, 9, 2, 10, 3, 11)
    assert {core.socket for core in second.cores} == {1}
    assert (first.threads, second.threads) == (4, 4)


def test_what_does_not_divide_differs_by_one() -> None:
    assert [share.threads for share in shares(two_sockets(), 3)] == [2, 3, 3]


def test_more_ranks_than_cores_share_cores_by_thread() -> None:
    found = shares(two_sockets(), 16)
    assert sorted(share.cpus for share in found) == [(cpu,) for cpu in range(16)]
    assert {share.threads for share in found} == {1}


def test_every_cpu_is_given_once() -> None:
    for count in range(1, 17):
        given = [cpu for share in shares(two_sockets(), count) for cpu in share.cpus]
        assert sorted(given) == list(range(16)), count


def test_a_quota_limits_threads_and_not_cores() -> None:
    here = machine(cores=two_sockets().cores, physical_cores=8, logical_cpus=16, quota_cpus=4.0)
    first, second = shares(here, 2)
    assert (len(first.cores), first.threads, second.threads) == (4, 2, 2)
    assert first.part_of(here).quota_cpus == 2.0


def test_without_a_topology_nothing_is_bound() -> None:
    found = shares(machine(cores=(), physical_cores=4, logical_cpus=4), 2)
    assert [(share.cpus, share.threads) for share in found] == [((), 2), ((), 2)]


def test_a_rank_sees_its_part_of_the_machine() -> None:
    here = two_sockets()
    seen = shares(here, 4)[1].part_of(here)
    assert (seen.physical_cores, seen.logical_cpus, seen.usable_cpus) == (2, 4, 4)
    assert [core.cpus for core in seen.cores] == [(2, 10), (3, 11)]


def test_the_users_own_number_of_threads_stands() -> None:
    share = shares(two_sockets(), 4)[0]
    assert share.variables({}) == {"OMP_NUM_THREADS": "2"}
    assert share.variables({"OMP_NUM_THREADS": "7"}) == {}


def test_a_layouts_processes_get_its_cpus_and_threads() -> None:
    here = two_sockets()
    first, second = shares_of(resolve(here, 2, 4, "socket"), here)
    assert (first.cpus, first.threads) == ((0, 1, 2, 3), 4)
    assert second.part_of(here).cores == tuple(Core((n,), 1, 1) for n in range(4, 8))
    assert shares_of(resolve(here, 1, 8, "socket"), here)[0].cpus == (0, 8, 1, 9, 2, 10, 3, 11)


def test_a_layout_that_binds_nothing_gives_threads_alone() -> None:
    here = machine(cores=(), physical_cores=4, logical_cpus=4)
    found = shares_of(resolve(here, 2, 2, "none"), here)
    assert [(share.cpus, share.threads) for share in found] == [((), 2), ((), 2)]


@pytest.mark.parametrize(
    ("count", "quota", "said"),
    [
        (0, None, "at least one process"),
        (-2, None, "at least one process"),
        (17, None, "there are 16 CPUs to run on, so choose at most 16"),
        (3, 1.5, "the container's quota is 1.5 CPUs, so choose at most 2"),
    ],
)
def test_a_number_that_does_not_fit_is_told_with_one_that_does(
    count: int, quota: float | None, said: str
) -> None:
    here = machine(cores=two_sockets().cores, physical_cores=8, logical_cpus=16, quota_cpus=quota)
    with pytest.raises(UsageError, match=said):
        shares(here, count)
