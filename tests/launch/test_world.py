"""Processes of several hosts find each other, agree, and end together: here each is a thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from hasten.errors import UsageError
from hasten.launch.keeper import Keeper
from hasten.launch.launched_rank import LaunchedRank
from hasten.launch.own_address import ports_from
from hasten.launch.pulse import deadline_of
from hasten.launch.rendezvous import LOCAL, free_port
from hasten.launch.world import ElsewhereFailed, World

PLACED = ((0, 1), (0, 2), (1, 2))  # local rank and local size of each rank


def together(act: Callable[[World], Any], **environment: str) -> list[Any]:
    """What each process of a host of one and a host of two comes to, or raises."""
    place = {
        "MASTER_ADDR": LOCAL,
        "MASTER_PORT": str(free_port()),
        "HASTEN_JOB_TOKEN": "a token of this test",
    }
    told = {**place, "LOCAL_RANK": "", "LOCAL_WORLD_SIZE": "", **environment}

    def one(rank: int) -> Any:
        launched = LaunchedRank("torchrun", rank, len(PLACED), *PLACED[rank], "job")
        with World(launched, told, {"rank": rank}) as world:
            return act(world)

    def outcome(future: Future[Any]) -> Any:
        return future.exception() or future.result()

    with ThreadPoolExecutor(len(PLACED)) as threads:
        return [outcome(future) for future in [threads.submit(one, rank) for rank in range(len(PLACED))]]


def test_they_find_out_who_is_where() -> None:
    found = together(lambda world: (world.here, world.leads, world.launch().ranks, world.size))
    assert found == [
        (0, True, ((0,), (1, 2)), 3),
        (1, True, ((0,), (1, 2)), 3),
        (1, False, ((0,), (1, 2)), 3),
    ]


def test_leaders_hear_what_each_says_in_turn_and_all_hear_of_the_end() -> None:
    def act(world: World) -> Any:
        said = []
        if world.leads:
            said = [world.share(world.here), world.share({"host": world.here})]
            world.ended(world.here)
        return said, world.wait_for_end()

    said = [[0, 1], [{"host": 0}, {"host": 1}]]
    assert together(act) == [(said, 1), (said, 1), ([], 1)]


def test_each_launch_is_one_of_its_own() -> None:
    numbers = together(lambda world: [world.launch().launch for _ in range(2)])
    assert numbers == [[1, 2]] * 3


@pytest.mark.attack("together")
def test_one_that_fails_ends_all_and_is_named() -> None:
    def act(world: World) -> Any:
        if world.here == 1 and world.leads:
            raise UsageError("there are too few CPUs")
        return world.share(0) if world.leads else world.wait_for_end()

    first, second, third = together(act)
    assert isinstance(second, UsageError)
    for other in (first, third):
        assert isinstance(other, ElsewhereFailed)
        assert other.exit_code == UsageError.exit_code
        assert str(other).endswith("#2: there are too few CPUs")


def test_another_job_at_the_first_port_is_passed_over() -> None:
    """Its rank 0 was there before ours, which then listens at the next port."""
    port = free_port()
    other = Keeper(LOCAL, [port], b"of another job", 60.0)
    try:
        assert together(lambda world: world.share(1) if world.leads else None, MASTER_PORT=str(port)) == [
            *([1, 1], [1, 1]),
            None,
        ]
    finally:
        other.close()
    assert ports_from(port, {})[0] == port


@pytest.mark.parametrize("text", ["soon", "1", "-5", "nan", "inf"])
def test_a_deadline_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HASTEN_DEADLINE is"):
        deadline_of({"HASTEN_DEADLINE": text})


def test_a_deadline_is_in_seconds() -> None:
    assert (deadline_of({"HASTEN_DEADLINE": "7.5"}), deadline_of({})) == (7.5, 60.0)
