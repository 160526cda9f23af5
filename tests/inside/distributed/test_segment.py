"""Memory in common, by any of two ways, and the error if there is none."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore

from hasten.inside.distributed.backends import segment
from hasten.inside.distributed.backends.segment import CannotShare, Segment

from ...patience import PATIENCE_SECONDS

BYTES = 64 * 1024
ABLE = frozenset({"kernel", "of rank 0 alone"})


def of_all(size: int) -> list[Segment | BaseException]:
    """The segments of ``size`` ranks, each in a thread; what was raised in place of one."""
    store = HashStore()
    store.set_timeout(timedelta(seconds=PATIENCE_SECONDS))
    found: list[Any] = [None] * size

    def start(rank: int) -> None:
        try:
            able = ABLE if rank == 0 else frozenset({"kernel"})
            found[rank] = Segment(store, rank, size, BYTES, able)
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=start, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE_SECONDS)
    return found


def failing(*ways: str) -> Callable[[str], Any]:
    made = segment._made

    def make(way: str) -> Any:
        if way in ways:
            raise OSError(errno.ENOSPC, f"No space left for {way}")
        return made(way)

    return make


@pytest.mark.parametrize("ways", [(), ("memory",)], ids=["memory without a name", "a file"])
def test_all_see_the_same_memory_and_no_file_stays(
    ways: tuple[str, ...], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(segment, "_SHARED_FOLDER", str(tmp_path))  # others write into the usual one meanwhile
    monkeypatch.setattr(segment, "_made", failing(*ways))
    all_of_them = of_all(3)
    assert all(isinstance(one, Segment) for one in all_of_them)
    first, *others = [one for one in all_of_them if isinstance(one, Segment)]
    first.memory[BYTES - 1] = 77
    assert [one.memory[BYTES - 1] for one in others] == [77, 77]
    assert [sorted(one.common) for one in (first, *others)] == [["kernel"]] * 3
    assert os.listdir(tmp_path) == []
    for one in (first, *others):
        one.close()


def test_without_memory_every_rank_is_told_how_much_was_missing(monkeypatch: Any) -> None:
    monkeypatch.setattr(segment, "_made", failing("memory", "file"))
    for error in of_all(2):
        assert isinstance(error, CannotShare)
        assert "No space left for file" in str(error)
        assert f"{BYTES} bytes are needed" in str(error)
        assert "use gloo" in str(error)


def test_memory_of_another_machine_is_not_taken_for_ours(monkeypatch: Any) -> None:
    """The path exists here, too, but something else lies there."""
    real = os.open

    def elsewhere(path: Any, flags: int, *more: Any) -> int:
        return real("/dev/zero" if str(path).startswith("/proc/") else path, flags, *more)

    monkeypatch.setattr(segment, "_made", failing("file"))
    monkeypatch.setattr(os, "open", elsewhere)
    for error in of_all(2):
        assert isinstance(error, CannotShare)
        assert re.search(r"rank 1: /proc/\d+/fd/\d+ is something else here", str(error))


def test_memory_that_was_inherited_is_taken_first(monkeypatch: Any) -> None:
    """As by ranks that see neither each other's open files nor files in common."""
    monkeypatch.setattr(segment, "_made", failing("memory", "file"))
    descriptor = os.memfd_create("given")
    store = HashStore()
    store.set_timeout(timedelta(seconds=PATIENCE_SECONDS))
    found: list[Any] = [None, None]

    def start(rank: int) -> None:
        found[rank] = Segment(store, rank, 2, BYTES, ABLE, inherited=os.dup(descriptor))

    threads = [threading.Thread(target=start, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE_SECONDS)
    first, second = found
    first.memory[BYTES - 1] = 55
    assert second.memory[BYTES - 1] == 55
    for one in found:
        one.close()
    os.close(descriptor)
