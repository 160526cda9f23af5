"""Which cases of a test run every time, and which only where ``--thorough`` asks for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest


def cases(names: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """For ``pytest.mark.parametrize``: a tuple is the values of several arguments. Every one of ``always``
    must be there.
    """
    every = list(names)
    assert set(always) <= set(every), set(always) - set(every)
    return [case if case in always else _thorough(case) for case in every]


def in_turn(*choices: Iterable[Any]) -> list[Any]:
    """For ``pytest.mark.parametrize``: all combinations, of which as many run every time as the longest list
    has values: each value of each list at least once.
    """
    lists = [list(values) for values in choices]
    turns = range(max(map(len, lists)))
    return cases(product(*lists), [tuple(one[turn % len(one)] for one in lists) for turn in turns])


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
