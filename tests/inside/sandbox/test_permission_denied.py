"""The name of a file that C++ code could not open: found in the frames that the error passed."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from hasten.inside.sandbox.permission_denied import naming_file


def written(what: str) -> str:
    """How an error is told that came out of a function called to save something."""

    def in_library(name: object) -> None:
        raise RuntimeError(what)

    def save(name: str, f: object) -> None:
        in_library(f)

    try:
        save("weights", Path("runs/last.pt"))
    except RuntimeError as error:
        return naming_file("".join(traceback.format_exception(error)), error).splitlines()[-1]
    raise AssertionError


def test_the_innermost_file_is_named() -> None:
    assert written("open failed: Permission denied") == (
        "RuntimeError: open failed: Permission denied: 'runs/last.pt'"
    )


@pytest.mark.parametrize("what", ["wrong shape", "[Errno 13] Permission denied: 'log.txt'"])
def test_what_needs_no_name_is_left(what: str) -> None:
    assert written(what) == f"RuntimeError: {what}"


def test_without_a_file_nothing_is_added() -> None:
    error = RuntimeError("Permission denied")
    assert naming_file("RuntimeError: Permission denied\n", error) == "RuntimeError: Permission denied\n"
