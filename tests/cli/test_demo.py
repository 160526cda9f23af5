"""``hasten demo`` without what the example imports. The demo itself takes minutes: ``make demo``."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from hasten.cli import demo
from hasten.errors import UsageError


def test_what_the_example_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else there(name))
    with pytest.raises(UsageError, match=r"imports PIL: pip install 'hasten\[examples\]'"):
        demo.execute(SimpleNamespace(budget=1.0))
