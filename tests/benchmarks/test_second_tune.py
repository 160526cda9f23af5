"""What rows that are made up say of second tunes."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.second_tune import NOT_MEASURED, is_held, share, summary

Row = dict[str, Any]
GAIN = {"value": 2.0, "low": 1.9, "high": 2.1}


def row(first: float, second: float, outcome: str = "gain") -> Row:
    tunes = [
        {"outcome": "gain", "reason": "", "plan": {}, "speedup": GAIN, "seconds": first},
        {"outcome": outcome, "reason": "", "plan": {}, "speedup": GAIN, "seconds": second},
    ]
    where = {"machine": "Pencil and Paper", "torch": "2.13.0", "commit": "abc"}
    return {"script": "train", "budget": 200.0, "tunes": tunes, **where}


@pytest.mark.parametrize(
    ("first", "second", "outcome", "held"),
    [
        (100.0, 50.0, "gain", True),
        (100.0, 51.0, "gain", False),
        (100.0, 10.0, "failed", False),
        (100.0, 10.0, "no-gain", True),
    ],
)
def test_half_the_time_is_held(first: float, second: float, outcome: str, held: bool) -> None:
    assert is_held(row(first, second, outcome)) is held


def test_the_share_is_of_the_first() -> None:
    assert share(row(200.0, 50.0)) == 0.25


def test_the_page_names_both_and_counts() -> None:
    text = summary([row(100.0, 40.0), row(100.0, 60.0, "no-gain")])
    assert "| train | 100 s | 40 s | 40% | 2.00x (1.90 to 2.10) | 2.00x (1.90 to 2.10) |" in text
    assert "| train | 100 s | 60 s | 60% | 2.00x (1.90 to 2.10) | no-gain |" in text
    assert "1 of 2 second tunes" in text
    assert "the median is 50%" in text


def test_nothing_measured_is_said() -> None:
    assert summary([]) == NOT_MEASURED
