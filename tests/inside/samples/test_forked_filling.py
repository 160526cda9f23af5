"""Samples made by several processes at once are those that one would make."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from hasten.inside.samples import forked_filling
from hasten.inside.samples.forked_filling import _Child, _is_shared, made_in_parallel

HERE = os.getpid()
LEFT = vars(_Child)["left"]


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do, by three processes, each its own part."""
    monkeypatch.setattr(forked_filling, "_WORTH_SECONDS", -1.0)
    monkeypatch.setattr(forked_filling, "cores", lambda: 3)
    monkeypatch.setattr(forked_filling, "_PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(_Child, "left", 0)  # for anybody else to take over


def mixed(index: int) -> dict[str, Any]:
    return {
        "image": torch.arange(index % 7 * 3, dtype=torch.float32).reshape(3, -1),
        "array": numpy.full((index % 5, 2), index, dtype=numpy.int16),
        "label": index,
        "name": f"no. {index}",
    }


def made_where(make: Callable[[int], object], count: int = 200) -> tuple[dict[int, Any], list[int]]:
    """All samples, and the indices that were made in this process."""
    here: list[int] = []

    def noting(index: int) -> object:
        if os.getpid() == HERE:
            here.append(index)
        return make(index)

    return dict(made_in_parallel(torch, noting, range(count))), here


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        torch.equal(one["image"], other["image"])
        and one["image"].dtype == other["image"].dtype
        and numpy.array_equal(one["array"], other["array"])
        and (one["label"], one["name"]) == (other["label"], other["name"])
    )


def test_they_are_the_same_and_children_make_their_part() -> None:
    found, here = made_where(mixed)
    assert sorted(found) == list(range(200))
    assert all(equal(sample, mixed(index)) for index, sample in found.items())
    assert len(here) == 32 + 56  # those that are timed, and a third of the rest


def test_waiting_threads_end_before_children_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait awake would take the cores from these."""
    ended: list[int] = []
    forks = os.fork
    monkeypatch.setattr(forked_filling, "end_idle_threads", lambda: ended.append(0))
    monkeypatch.setattr(os, "fork", lambda: ended.append(1) or forks())  # type: ignore[func-returns-value]
    made_where(mixed)
    assert ended == [0, 1, 1]


def test_what_children_made_can_be_written_to() -> None:
    found, _ = made_where(lambda index: torch.full((4,), float(index)))
    for sample in found.values():
        sample += 1
    assert found[100].tolist() == [101.0] * 4


def test_no_descriptor_stays_open_while_they_are_kept() -> None:
    before = len(os.listdir("/proc/self/fd"))
    kept = [made_where(mixed)[0] for _ in range(3)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(equal(found[199], mixed(199)) for found in kept)


def test_many_large_ones_come_through() -> None:
    """More than fits into a buffer at once."""
    found, _ = made_where(lambda index: torch.full((50_000,), float(index)), 100)
    assert all(sample.unique().tolist() == [float(index)] for index, sample in found.items())


class Own:
    """No plain bytes."""

    def __init__(self, index: int) -> None:
        self.index = index


def test_what_is_no_plain_bytes_is_made_here() -> None:
    found, here = made_where(Own)
    assert [found[index].index for index in range(200)] == list(range(200))
    assert sorted(here) == list(range(200))


@pytest.mark.parametrize("draw", [random.random, numpy.random.rand, lambda: torch.rand(1)])
def test_where_making_one_draws_none_of_a_child_is_taken(draw: Callable[[], object]) -> None:
    def drawing(index: int) -> int:
        if index == 150:
            draw()
        return index

    found, here = made_where(drawing)
    assert found == {index: index for index in range(200)}
    assert len(here) > 32 + 56


def test_where_making_one_draws_from_a_generator_none_of_a_child_is_taken() -> None:
    generator = random.Random(0)

    here: list[int] = []

    def drawing(index: int) -> int:
        here.append(index)
        if index == 150 and os.getpid() != HERE:
            generator.random()
        return index

    found = dict(made_in_parallel(torch, drawing, range(200), [generator]))
    assert found == {index: index for index in range(200)}
    assert len(here) > 32 + 56


def in_a_child(act: Callable[[], object]) -> Callable[[int], int]:
    """Makes a sample, but a child does this at the hundredth."""

    def make(index: int) -> int:
        if os.getpid() != HERE and index >= 100:
            act()
        return index

    return make


def fail() -> None:
    raise ValueError("not in a child")


@pytest.mark.parametrize("act", [fail, lambda: os._exit(3), lambda: os.kill(os.getpid(), 9)])
def test_a_child_that_ends_early_loses_nothing(act: Callable[[], object]) -> None:
    found, _ = made_where(in_a_child(act))
    assert found == {index: index for index in range(200)}


def test_a_child_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_filling, "_PATIENCE_SECONDS", 0.3)
    found, here = made_where(in_a_child(lambda: time.sleep(1e6)))
    assert found == {index: index for index in range(200)}
    assert len(here) == 200


def test_a_child_that_hangs_costs_no_other_child_s_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_filling, "_PATIENCE_SECONDS", 0.3)

    def make(index: int) -> int:
        if os.getpid() != HERE and index >= 100 and index % 3 == 0:  # the first child's
            time.sleep(1e6)
        return index

    found, here = made_where(make)
    assert found == {index: index for index in range(200)}
    assert not {index for index in here if index >= 32 and index % 3 == 1}


SHARE = 56  # of three processes, besides what is timed


@pytest.mark.parametrize("slower", [1.0, 5.0])
def test_what_slow_children_have_not_begun_is_made_here(
    monkeypatch: pytest.MonkeyPatch, slower: float
) -> None:
    monkeypatch.setattr(_Child, "left", LEFT)

    def make(index: int) -> int:
        time.sleep(0.002 if os.getpid() == HERE else 0.002 * slower)
        return index

    found, here = made_where(make)
    assert found == {index: index for index in range(200)}
    assert len(here) == len(set(here)), "none is made twice here"
    assert 32 + SHARE <= len(here) < 200
    assert slower == 1.0 or len(here) > 32 + SHARE + 30


def test_all_that_a_hanging_child_has_not_begun_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Child, "left", LEFT)
    monkeypatch.setattr(forked_filling, "_PATIENCE_SECONDS", 0.3)
    found, here = made_where(in_a_child(lambda: time.sleep(1e6)))
    assert found == {index: index for index in range(200)}
    assert len(here) == len(set(here))
    assert set(range(100, 200)) <= set(here)


def test_what_raises_here_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(index: int) -> int:
        if index == 150:
            raise KeyError(index)
        return index

    fork, children = os.fork, []

    def forking() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", forking)
    with pytest.raises(KeyError):
        made_where(broken)
    assert len(children) == 2
    for child in children:  # none is left behind
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_few_samples_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_filling, "_WORTH_SECONDS", 1e6)
    _, here = made_where(mixed)
    assert here == list(range(200))


def test_what_a_child_makes_otherwise_is_not_taken() -> None:
    """By another number of threads, say."""
    found, here = made_where(lambda index: index if os.getpid() == HERE else index + 1)
    assert found == {index: index for index in range(200)}
    assert sorted(here) == list(range(200))


def test_a_connection_to_another_process_is_shared() -> None:
    """Two that listen to it at once mix up what they are told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not _is_shared(server.fileno())
        with socket.create_connection(server.getsockname()) as connection:
            assert _is_shared(connection.fileno())
            connection.getpeername()  # it is still open
    one, other = socket.socketpair()
    with one, other:  # as between hasten and its worker
        assert not _is_shared(one.fileno())


def test_so_is_the_offset_of_a_file_that_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(100))
    with path.open("rb") as file:
        assert not _is_shared(file.fileno())
    with path.open("r+b") as file:
        assert _is_shared(file.fileno())
        assert forked_filling.shares_what_it_reads()


def test_a_process_that_shares_what_it_reads_forks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(forked_filling, "_is_shared", lambda number: False)
    assert forked_filling.cores() == len(os.sched_getaffinity(0))
    monkeypatch.setattr(forked_filling, "_is_shared", lambda number: True)
    assert forked_filling.cores() == 1


def test_looking_leaves_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        forked_filling.shares_what_it_reads()
    assert len(os.listdir("/proc/self/fd")) == before
