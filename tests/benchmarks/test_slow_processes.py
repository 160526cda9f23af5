"""What rows of single processes say."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.slow_processes import against_the_nearest, plan_for, rows_under, share_words, summary
from scipy import stats  # type: ignore[import-untyped]

from hasten.records.plan import BASELINE, Plan

PLAN = Plan({"malloc": {}})
OTHER = Plan({"bf16": {}})


def rows(seconds: list[float], trained: Plan = BASELINE, plan: Plan = PLAN) -> list[dict[str, Any]]:
    """Of one plan's processes, in the order of time."""
    return [
        {
            "example": "fashion_cnn",
            "plan": plan.to_json(),
            "trained": trained.to_json(),
            "number": number,
            "sample_seconds": one,
            "machine": "Pencil and Paper",
            "torch": "2.13.0",
        }
        for number, one in enumerate(seconds)
    ]


def test_processes_are_distinguished_by_what_they_trained_and_with_what() -> None:
    kept = [*rows([1.0, 2.0]), *rows([3.0], PLAN), *rows([4.0], OTHER, OTHER), *rows([5.0], BASELINE, OTHER)]
    assert rows_under(kept, "fashion_cnn", PLAN, BASELINE) == [1.0, 2.0]
    assert rows_under(kept, "fashion_cnn", PLAN, PLAN) == [3.0]
    assert rows_under(kept, "fashion_cnn", OTHER, BASELINE) == [5.0]
    assert rows_under(kept, "char_gpt", PLAN, BASELINE) == []


def test_a_drift_makes_no_process_slow_and_a_slow_one_stands_out() -> None:
    drifting = [1.01**n for n in range(100)]
    assert max(against_the_nearest(drifting)) < 1.2
    drifting[50] *= 1.5
    assert [n for n, times in enumerate(against_the_nearest(drifting)) if times > 1.2] == [50]
    assert against_the_nearest([1.0, 3.0, 1.0]) == [1.0, 3.0, 1.0]


@pytest.mark.parametrize(("slow", "count"), [(0, 10), (1, 10), (5, 100), (10, 10)])
def test_a_share_has_the_interval_of_clopper_and_pearson(slow: int, count: int) -> None:
    interval = stats.binomtest(slow, count).proportion_ci(method="exact")
    assert share_words(slow, count) == f"{slow} of {count} ({interval.low:.1%} to {interval.high:.1%})"


def test_the_summary_has_a_row_for_each_plan() -> None:
    lines = summary([*rows([1.0] * 9 + [1.5]), *rows([0.5] * 10, PLAN)]).splitlines()
    assert lines[2].startswith("| fashion_cnn | baseline | 1 of 10 (0.3% to 44.5%) | 1 of 10 (0.3% to 44.5%)")
    assert lines[2].endswith("| 1.50 | 12.2% |")
    assert lines[3].startswith("| fashion_cnn | malloc | 0 of 10 (0.0% to 30.8%)")
    assert lines[-1] == "Measured on Pencil and Paper, torch 2.13.0."


def test_without_rows_it_says_so() -> None:
    assert summary([]).startswith("None have been measured yet")


def test_the_plan_is_the_one_named_or_that_of_the_last_row() -> None:
    kept = [*rows([1.0], plan=OTHER), *rows([1.0])]
    assert plan_for("fashion_cnn", [], kept) == PLAN
    assert plan_for("fashion_cnn", ["bf16"], kept) == Plan({"bf16": {}})
