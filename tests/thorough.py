"""Which cases of a test run every time, and which only where ``--thorough`` asks for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(names: Iterable[str], always: Collection[str]) -> list[Any]:
    """For ``pytest.mark.parametrize``. Every one of ``always`` must be there."""
    every = list(names)
    assert set(always) <= set(every), set(always) - set(every)
    return [name if name in always else pytest.param(name, marks=pytest.mark.thorough) for name in every]
