"""Every technique can be told as code."""

from __future__ import annotations

import pytest
from benchmarks.cards import TRIED_WITH

from hasten.inside.techniques.catalog import CATALOG
from hasten.plans.as_code import as_code
from hasten.records.plan import Plan


@pytest.mark.parametrize("name", CATALOG)
def test_a_comment_and_some_code(name: str) -> None:
    plan = Plan({name: TRIED_WITH.get(name, {})})
    _, part = as_code(plan, "train.py", {}, {}).split("\n\n", 1)
    comment, _, code = part.partition("\n")
    assert comment.startswith(f"# {name}")
    assert CATALOG[name].summary in comment
    assert code.strip()
