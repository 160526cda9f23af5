"""What this very process has loaded, and what its threads may do."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from hasten.inside.techniques.support import native

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@needs_linux
def test_the_file_that_answers_a_function() -> None:
    file = native.file_of("malloc")
    assert os.path.isfile(file)
    assert native.mapped(file)


def test_a_function_that_does_not_exist() -> None:
    assert native.function("no_such_function_at_all") is None
    assert native.file_of("no_such_function_at_all") == ""


def test_a_file_that_is_not_loaded() -> None:
    assert not native.mapped("/no/such/file.so")
    assert not native.mapped("")


@needs_linux
def test_the_cpus_of_every_thread() -> None:
    found = native.cpus_by_thread()
    assert found[threading.get_native_id()] == os.sched_getaffinity(0)
    assert len(found) >= threading.active_count()


@needs_linux
def test_time_on_a_core_goes_on() -> None:
    ours = threading.get_native_id()
    before = native.seconds_by_thread()[ours]
    for _ in range(10):
        sum(range(10**5))
    assert native.seconds_by_thread()[ours] > before


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-2,8", {0, 1, 2, 8}), ("5", {5}), ("", set()), ("0-1,4-5", {0, 1, 4, 5})]
)
def test_a_list_of_cpus(text: str, cpus: set[int]) -> None:
    assert native.cpus_in(text) == cpus


def test_what_cannot_be_read_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_lines", lambda file: [])
    assert native.huge_bytes() == 0
    assert native.seconds_by_thread() == {}
