"""A pipe is waited for, whatever its number."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hasten.inside.process.readable import readable


@pytest.fixture(params=[None, 2000], ids=["a usual one", "above 1,023"])
def pipe(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Where to read, and where to write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    out, into = os.pipe()
    if request.param is not None:
        if hard <= request.param:
            pytest.skip(f"{hard} open files are all that this machine allows")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, request.param + 1), hard))
        os.dup2(out, request.param)
        os.close(out)
        out = request.param
    yield out, into
    for number in (out, into):
        with suppress(OSError):  # a test has closed it
            os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_was_written_is_there(pipe: tuple[int, int]) -> None:
    out, into = pipe
    assert not readable(out, 0)
    os.write(into, b"x")
    assert readable(out, 0)


def test_its_end_counts(pipe: tuple[int, int]) -> None:
    out, into = pipe
    os.close(into)
    assert readable(out, 60)


def test_time_that_is_over_is_no_time(pipe: tuple[int, int]) -> None:
    assert not readable(pipe[0], -1.0)
