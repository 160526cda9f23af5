"""Which cases of a test run every time, and which only where ``--thorough`` asks for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(names: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """For ``pytest.mark.parametrize``: a tuple is the values of several arguments. Every one of ``always``
    must be there.
    """
    every = list(names)
    assert set(always) <= set(every), set(always) - set(every)
    return [case if case in always else _thorough(case) for case in every]


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
