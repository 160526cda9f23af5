"""Ranks of several hosts come to what ranks of one would: here hosts are threads that share lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import torch

from hasten.inside.distributed.backends.engine import Engine
from hasten.inside.distributed.backends.hierarchy import Hierarchy, HostGone
from hasten.inside.internals.groups import Store
from hasten.inside.job import Hosts

from ...patience import PATIENCE_SECONDS

EVEN = ((0, 1), (2, 3))
UNEVEN = ((0, 3, 4), (1,), (2, 5))
SINGLE = ((0,), (1,), (2,))


class Room:
    """Where the ranks of one group exchange tensors."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size)
        self.told: list[torch.Tensor] = [torch.empty(0)] * size

    def exchange(self, place: int, tensor: torch.Tensor) -> list[torch.Tensor]:
        self.barrier.wait(PATIENCE_SECONDS)
        self.told[place] = tensor.clone()
        self.barrier.wait(PATIENCE_SECONDS)
        return [one.clone() for one in self.told]


class InRoom:
    """An ``Engine`` of threads."""

    def __init__(self, room: Room, rank: int) -> None:
        self.room, self.rank = room, rank

    def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
        assert op in ("sum", "max")
        told = torch.stack(self.room.exchange(self.rank, tensor))
        tensor.copy_(told.sum(0) if op == "sum" else told.max(0).values)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        tensor.copy_(self.room.exchange(self.rank, tensor)[root])

    def all_gather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        output.copy_(torch.stack(self.room.exchange(self.rank, tensor)).view(output.shape))

    def barrier(self) -> None:
        self.room.exchange(self.rank, torch.empty(0))

    def close(self) -> None: ...


class Board:
    """A store of what hosts say."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.kept[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)


def hosts(ranks: tuple[tuple[int, ...], ...], here: int) -> Hosts:
    return Hosts(ranks, tuple(f"h{n}" for n in range(len(ranks))), here, "127.0.0.1", "", "")


def on_all(ranks: tuple[tuple[int, ...], ...], act: Callable[[Hierarchy], Any]) -> list[Any]:
    """What each rank comes to, by its number."""
    within, between = [Room(len(one)) for one in ranks], Room(len(ranks))
    engines: dict[int, Hierarchy] = {}
    for number, here in enumerate(ranks):
        for place, rank in enumerate(here):
            inner = cast(Engine, InRoom(within[number], place)) if len(here) > 1 else None
            outer = cast(Engine, InRoom(between, number)) if place == 0 else None
            engines[rank] = Hierarchy(hosts(ranks, number), rank, inner, outer, cast(Store, Board()))
    with ThreadPoolExecutor(len(engines)) as threads:
        return list(threads.map(lambda rank: act(engines[rank]), range(len(engines))))


@pytest.fixture(params=[EVEN, UNEVEN, SINGLE], ids=["even", "uneven", "one rank each"])
def ranks(request: pytest.FixtureRequest) -> tuple[tuple[int, ...], ...]:
    return cast("tuple[tuple[int, ...], ...]", request.param)


@pytest.mark.parametrize("op", ["sum", "avg", "max"])
def test_all_reduce(ranks: tuple[tuple[int, ...], ...], op: str) -> None:
    size = sum(map(len, ranks))

    def act(engine: Hierarchy) -> list[float]:
        tensor = torch.tensor([float(engine.rank), 1.0, 10.0 * engine.rank])
        engine.all_reduce(tensor, op)
        return cast("list[float]", tensor.tolist())

    total = size * (size - 1) / 2
    wanted = {
        "sum": [total, size, 10 * total],
        "avg": [total / size, 1.0, 10 * total / size],
        "max": [size - 1, 1.0, 10.0 * (size - 1)],
    }[op]
    assert on_all(ranks, act) == [pytest.approx(wanted)] * size


def test_broadcast_from_each(ranks: tuple[tuple[int, ...], ...]) -> None:
    size = sum(map(len, ranks))

    def act(engine: Hierarchy) -> list[float]:
        found = []
        for root in range(size):
            tensor = torch.full((2,), float(engine.rank))
            engine.broadcast(tensor, root)
            found.append(float(tensor.sum()) / 2)
        return found

    assert on_all(ranks, act) == [[float(root) for root in range(size)]] * size


def test_all_gather_is_in_the_order_of_ranks(ranks: tuple[tuple[int, ...], ...]) -> None:
    size = sum(map(len, ranks))

    def act(engine: Hierarchy) -> Any:
        output = torch.empty(size, 2, 2, dtype=torch.float64)
        given = torch.arange(4, dtype=torch.float64).view(2, 2) + 10 * engine.rank
        engine.all_gather(output, given)
        return output.tolist()

    wanted = [[[10.0 * r, 10 * r + 1], [10 * r + 2, 10 * r + 3]] for r in range(size)]
    assert on_all(ranks, act) == [wanted] * size


def test_reduce_scatter_and_barrier(ranks: tuple[tuple[int, ...], ...]) -> None:
    size = sum(map(len, ranks))

    def act(engine: Hierarchy) -> list[float]:
        output = torch.empty(2)
        engine.reduce_scatter(output, torch.arange(2.0 * size), "sum")
        engine.barrier()
        return cast("list[float]", output.tolist())

    assert on_all(ranks, act) == [[2.0 * r * size, (2.0 * r + 1) * size] for r in range(size)]


def test_a_host_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three hosts wait in vain, and say so; the third does not."""
    monkeypatch.setattr("hasten.inside.distributed.backends.hierarchy._REPORT_SECONDS", 0.3)
    board = Board()

    class Broken(InRoom):
        def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
            raise RuntimeError("[pair.cc:553] Connection closed by peer. This is typically caused by")

    def wait(here: int) -> str:
        engine = Hierarchy(
            hosts(SINGLE, here), here, None, cast(Engine, Broken(Room(1), here)), cast(Store, board)
        )
        with pytest.raises(HostGone) as raised:
            engine.all_reduce(torch.zeros(1), "sum")
        return str(raised.value)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(wait, (0, 1)))
    assert found == [f"host h{n} waited in vain for host h2: Connection closed by peer" for n in (0, 1)]
