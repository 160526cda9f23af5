"""Warnings name the script's line, whatever of ours stands between it and torch."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hasten.inside import seams as a_file_of_ours
from hasten.inside.seams import Seams
from hasten.inside.warned import count_the_scripts_frames

_WRAPPER = "def make(original):\n    def ours(*args):\n        return original(*args)\n    return ours\n"


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """As a seam of ours stands around it, in a file of ours."""
    made: dict[str, Any] = {}
    exec(compile(_WRAPPER, a_file_of_ours.__file__, "exec"), made)
    found: Callable[..., Any] = made["make"](function)
    return found


def of_torch(level: int) -> None:
    warnings.warn("this is old", DeprecationWarning, level)


@pytest.fixture
def seams() -> Iterator[Seams]:
    made = Seams()
    count_the_scripts_frames(made)
    yield made
    made.undo_all()


def line_named(call: Callable[[], object]) -> str:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    (one,) = found
    assert one.category is DeprecationWarning
    return linecache.getline(one.filename, one.lineno).strip()


def script(function: Callable[[int], None], level: int) -> None:
    function(level)  # the script's line


THE_SCRIPTS = "function(level)  # the script's line"


@pytest.mark.usefixtures("seams")
@pytest.mark.parametrize("times", [0, 1, 2])
def test_the_callers_line_is_named(times: int) -> None:
    function = of_torch
    for _ in range(times):
        function = wrapped(function)
    assert line_named(lambda: script(function, 1)).startswith("warnings.warn(")
    assert line_named(lambda: script(function, 2)) == THE_SCRIPTS


@pytest.mark.usefixtures("seams")
def test_ours_between_two_functions_of_torch_is_not_counted() -> None:
    inner = wrapped(of_torch)

    def outer(level: int) -> None:
        inner(level)  # torch's

    assert line_named(lambda: script(wrapped(outer), 2)) == "inner(level)  # torch's"
    assert line_named(lambda: script(wrapped(outer), 3)) == THE_SCRIPTS


@pytest.mark.usefixtures("seams")
def test_more_levels_than_there_are_calls_are_left_to_python() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        wrapped(of_torch)(10_000)
    (one,) = found
    assert one.filename.strip("<>") == "sys"  # by Python's release


def test_it_is_taken_back() -> None:
    before = warnings.warn
    made = Seams()
    count_the_scripts_frames(made)
    assert warnings.warn is not before
    made.undo_all()
    assert warnings.warn is before
