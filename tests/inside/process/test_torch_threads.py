"""Something done in each of torch's threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from hasten.inside.process import torch_threads
from hasten.inside.process.torch_threads import NoThreads, TorchThreads


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def seen(threads: TorchThreads) -> set[int]:
    found: set[int] = set()
    threads.each(lambda: found.add(threading.get_native_id()))
    return found


def test_it_is_done_in_as_many_threads_as_compute_and_in_our_own() -> None:
    torch.set_num_threads(3)
    torch.ones(2**20).mul_(2)
    threads = TorchThreads(torch)
    found = seen(threads)
    assert len(found) == 3
    assert threading.get_native_id() in found
    assert seen(threads) == found, "they are kept"


def test_threads_that_rest_since_the_script_asked_for_fewer_are_reached_too() -> None:
    torch.set_num_threads(3)
    threads = TorchThreads(torch)
    before = seen(threads)
    torch.set_num_threads(1)
    assert seen(threads) == before


def test_one_thread_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "_NAME", "no_such_function")
    torch.set_num_threads(1)
    assert seen(TorchThreads(torch)) == {threading.get_native_id()}


def test_threads_of_another_kind_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "_NAME", "no_such_function")
    torch.set_num_threads(2)
    with pytest.raises(NoThreads, match="no OpenMP library that torch uses has no_such_function"):
        TorchThreads(torch)
