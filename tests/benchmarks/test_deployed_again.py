"""What rows that are made up say of plans that were deployed again."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchmarks.deployed_again import NOT_MEASURED, due, is_held, loses, summary

Row = dict[str, Any]
WHERE = {"machine": "Pencil and Paper", "torch": "2.13.0", "commit": "abc"}
NINE, TEN = "2026-01-01T09:00:00+00:00", "2026-01-01T10:00:00+00:00"
GAIN = {"value": 2.0, "low": 1.9, "high": 2.1}


def tuned(script: str, outcome: str = "gain", technique: str = "bf16") -> Row:
    found = {"outcome": outcome, "plan": {technique: {}}, "speedup": GAIN}
    return {"kind": "tuned", "script": script, "ended": NINE, **found, **WHERE}


def again(script: str, times: float, failure: str | None = None) -> Row:
    found = {"log_ratios": [-math.log(times)] * 3, "failure": failure}
    return {"kind": "again", "script": script, "tuned": NINE, "ended": TEN, **found, **WHERE}


@pytest.mark.parametrize(
    ("row", "lost"),
    [(again("a", 1.01), False), (again("a", 0.99), True), (again("a", 2.0, failure="it hangs"), True)],
)
def test_what_is_slower_or_fails_loses(row: Row, lost: bool) -> None:
    assert loses(row) is lost


@pytest.mark.parametrize(("losing", "held"), [(0, True), (1, True), (2, False)])
def test_one_in_twenty_may_lose(losing: int, held: bool) -> None:
    rows = [tuned(str(n)) for n in range(20)]
    rows += [again(str(n), 0.9 if n < losing else 1.5) for n in range(20)]
    assert is_held(rows) is held


def test_only_old_gains_that_were_not_deployed_again_are_due() -> None:
    """What lies outside of steps alone cannot be told by steps."""
    rows = [
        tuned("a"),
        tuned("b"),
        tuned("c", "no-gain"),
        tuned("d", technique="async_save"),
        again("b", 1.5),
    ]
    assert [row["script"] for row in due(rows, 1.0, TEN)] == ["a"]
    assert due(rows, 1.1, TEN) == []


def test_the_page_says_how_many_lose_and_what_is_left() -> None:
    text = summary([tuned("a"), again("a", 1.9), tuned("b"), again("b", 0.9), tuned("c", "no-gain")])
    assert "| a | 2.00x (1.90 to 2.10) | 1.90x, 3 pairs | 1.0 h |" in text
    assert "2 of 3 tunes found a gain" in text
    assert "1 of 2 plans lose" in text
    assert "45% at least" in text


def test_nothing_measured_is_said() -> None:
    assert summary([]) == NOT_MEASURED
    assert not is_held([])
