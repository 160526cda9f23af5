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


@pytest.mark.parametrize(("budget", "named"), [(demo.PARAMETERS[0].default, []), (90.0, ["--budget", "90"])])
def test_its_tune_grows_like_anyones_unless_a_budget_is_named(
    budget: float | None, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine the default was too short, and named: nine techniques were not tried."""
    typed: list[tuple[str, ...]] = []

    def type_once(folder: str, *words: str) -> float:
        typed.append(words)
        raise UsageError("enough")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(demo, "_type", type_once)
    with pytest.raises(UsageError, match="enough"):
        demo.execute(SimpleNamespace(budget=budget))
    assert [list(words[:-1]) for words in typed] == [["tune", *named]]
