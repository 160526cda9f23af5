"""Which processes of a launcher are on one host."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.launch.seats import Seat, hosts_of, names_of, told


def seat(rank: int, host: str, local_rank: int | None = None, local_size: int | None = None) -> Seat:
    return Seat(rank, host, "10.0.0.1", local_rank, local_size)


TORCHRUN = [seat(0, "a", 0, 2), seat(1, "a", 1, 2), seat(2, "b", 0, 1)]
IN_TURNS = [seat(0, "a", 0, 2), seat(1, "b", 0, 2), seat(2, "a", 1, 2), seat(3, "b", 1, 2)]
UNTOLD = [seat(0, "b"), seat(1, "a"), seat(2, "a")]
CONTAINERS = [seat(0, "vm", 0, 2), seat(1, "vm", 1, 2), seat(2, "vm", 0, 1)]
SMALL_FIRST = [seat(0, "vm", 0, 1), seat(1, "vm", 0, 2), seat(2, "vm", 1, 2)]
BACKWARDS = [seat(0, "a", 1, 2), seat(1, "a", 0, 2)]


@pytest.mark.parametrize(
    ("seats", "ranks", "words"),
    [
        pytest.param(TORCHRUN, [[0, 1], [2]], "a (ranks 0, 1), b (rank 2)", id="as torchrun numbers them"),
        pytest.param(
            IN_TURNS, [[0, 2], [1, 3]], "a (ranks 0, 2), b (ranks 1, 3)", id="by turns, as mpirun may"
        ),
        pytest.param(UNTOLD, [[0], [1, 2]], "b (rank 0), a (ranks 1, 2)", id="without local ranks"),
        pytest.param(CONTAINERS, [[0, 1], [2]], "vm#1 (ranks 0, 1), vm#2 (rank 2)", id="two of one name"),
        pytest.param(
            SMALL_FIRST, [[0], [1, 2]], "vm#1 (rank 0), vm#2 (ranks 1, 2)", id="the small one first"
        ),
        pytest.param(BACKWARDS, [[1, 0]], "a (ranks 1, 0)", id="numbered otherwise on the host"),
    ],
)
def test_hosts_are_found(seats: list[Seat], ranks: list[list[int]], words: str) -> None:
    for order in (seats, seats[::-1]):
        found = hosts_of(order)
        assert [[one.rank for one in host] for host in found] == ranks
        assert told(found) == words


@pytest.mark.parametrize(
    "seats",
    [
        pytest.param([seat(0, "a", 0, 1), seat(1, "a", 1, 2)], id="sizes that differ"),
        pytest.param([seat(0, "a", 0, 2)], id="one that is missing"),
        pytest.param([seat(0, "a", 1, 1)], id="that do not begin at 0"),
    ],
)
def test_what_does_not_fit_is_refused(seats: list[Seat]) -> None:
    with pytest.raises(UsageError, match=r"on host a there are ranks .* set LOCAL_RANK and LOCAL_WORLD_SIZE"):
        hosts_of(seats)


def test_those_that_came_are_told_before_all_have() -> None:
    assert told(hosts_of([seat(1, "a", 1, 2)], all_came=False)) == "a (rank 1)"


def test_names_are_told_apart() -> None:
    assert names_of([[seat(0, "a")], [seat(1, "b")], [seat(2, "a")]]) == ("a#1", "b", "a#2")
