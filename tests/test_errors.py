"""The tree of exceptions is what its docstring draws, and each has the exit code drawn there."""

from __future__ import annotations

import inspect
import re

import pytest

from hasten import errors
from hasten.errors import HastenError

DRAWN = {
    name: int(code)
    for name, code in re.findall(r"^[│├└─ ]+(\w+) .*exit (\d)$", errors.__doc__ or "", re.MULTILINE)
}
DEFINED = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HastenError) and kind is not HastenError
}


def test_all_exceptions_are_drawn() -> None:
    assert set(DRAWN) == set(DEFINED)


@pytest.mark.parametrize("name", DRAWN)
def test_the_exit_code_is_as_drawn(name: str) -> None:
    assert DEFINED[name].exit_code == DRAWN[name]


def test_no_error_looks_like_success_or_like_a_signal() -> None:
    assert all(0 < kind.exit_code < 128 for kind in DEFINED.values())


def test_a_broken_plan_is_a_usage_error() -> None:
    assert issubclass(errors.PlanError, errors.UsageError)
