"""Something done in each of torch's threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from hasten.inside.process import torch_threads
from hasten.inside.process.torch_threads import NoThreads, in_each


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def seen() -> set[int]:
    found: set[int] = set()
    in_each(torch, lambda: found.add(threading.get_native_id()))
    return found


def test_it_is_done_in_as_many_threads_as_compute_and_in_our_own() -> None:
    torch.set_num_threads(3)
    torch.ones(2**20).mul_(2)
    found = seen()
    assert len(found) == 3
    assert threading.get_native_id() in found
    assert seen() == found, "they are kept"


def test_one_thread_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "_loaded", list)
    torch.set_num_threads(1)
    assert seen() == {threading.get_native_id()}


def test_threads_of_another_kind_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "_loaded", lambda: ["/nowhere/libgomp.so.1"])
    torch.set_num_threads(2)
    with pytest.raises(NoThreads, match="neither libgomp's nor libiomp5's"):
        seen()
