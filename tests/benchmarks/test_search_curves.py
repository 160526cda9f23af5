"""Searches over a table that is made up: what they find when, and what score that is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import search_curves
from benchmarks.search_curves import (
    Cell,
    at,
    best_of,
    best_so_far,
    exhaustive_seconds,
    optuna_curves,
    random_curves,
    reached,
    score,
    seconds_to,
)
from benchmarks.search_space import plans_of

from hasten.records.plan import BASELINE, Plan

BF16, MALLOC = Plan({"bf16": {}}), Plan({"malloc": {}})
BOTH = Plan({"bf16": {}, "malloc": {}})
AXES = {"bf16": [BASELINE, BF16], "malloc": [BASELINE, MALLOC]}
TABLE = {BASELINE: Cell(1.0, 2.0), BF16: Cell(0.6, 3.0), MALLOC: Cell(None, 1.0), BOTH: Cell(0.5, 4.0)}


def test_the_best_so_far_comes_when_its_trial_is_over() -> None:
    curve = best_so_far(iter([MALLOC, BASELINE, BF16, BOTH]), TABLE, 1e9)
    assert curve == [(0.0, 1.0), (6.0, 0.6), (10.0, 0.5)]
    assert [at(curve, seconds) for seconds in (0.0, 5.9, 6.0, 9.9, 10.0, 99.0)] == [1, 1, 0.6, 0.6, 0.5, 0.5]
    assert [reached(curve, time) for time in (1.0, 0.6, 0.55, 0.4)] == [0.0, 6.0, 10.0, None]


def test_what_is_slower_or_fails_changes_nothing_but_costs() -> None:
    slower = {**TABLE, BF16: Cell(1.2, 3.0)}
    assert best_so_far(iter([BF16, MALLOC, BOTH]), slower, 1e9) == [(0.0, 1.0), (8.0, 0.5)]


def test_a_search_ends_with_its_time_or_with_the_best() -> None:
    def asked() -> Iterator[Plan]:
        yield BF16
        yield BASELINE
        raise AssertionError("its time is over")

    assert best_so_far(asked(), TABLE, 4.9) == [(0.0, 1.0), (3.0, 0.6)]

    def found() -> Iterator[Plan]:
        yield BOTH
        raise AssertionError("nothing is better")

    assert best_so_far(found(), TABLE, 1e9)[-1] == (4.0, 0.5)


def test_random_search_tries_each_plan_once() -> None:
    curves = random_curves(TABLE, 200)
    assert best_of(TABLE) == BOTH
    assert all(curve[-1][1] == 0.5 for curve in curves)
    assert all(curve[-1][0] <= exhaustive_seconds(TABLE) == 10.0 for curve in curves)
    assert {curve[-1][0] for curve in curves} == {4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0}


def test_a_search_that_never_is_as_good_counts_with_the_most() -> None:
    curves = [[(0.0, 1.0), (5.0, 0.6)], [(0.0, 1.0), (7.0, 0.5)], [(0.0, 1.0)]]
    assert seconds_to(0.6, curves, 10.0) == 7.0
    assert seconds_to(0.5, curves, 10.0) == 10.0
    assert seconds_to(1.0, curves, 10.0) == 0.0


# ---- the score
MANY = {Plan({"threads": {"count": n}}): Cell(0.5 + 0.005 * (n - 1), 1.0) for n in range(1, 101)}
DRAWN = random_curves(MANY)


def test_the_best_at_once_scores_one_and_random_search_itself_none() -> None:
    assert score([[(0.0, 0.5)]], MANY, DRAWN) == pytest.approx(1.0)
    assert score(DRAWN, MANY, DRAWN) == pytest.approx(0.0)
    assert score(random_curves(MANY, 300), MANY, DRAWN) == pytest.approx(0.0, abs=0.1)


def test_what_keeps_the_baseline_scores_below_none() -> None:
    kept = score([[(0.0, 1.0)]], MANY, DRAWN)
    assert kept is not None
    assert kept < -1


def test_the_score_is_the_mean_part_of_the_way_over_time() -> None:
    """Random search finds the one plan that is better after one, two, three or four seconds: its mean falls
    by steps of an eighth. 95% of the way from the median, 1, is where all have found it.
    """
    plans = [BASELINE, BF16, MALLOC, BOTH]
    table = {plan: Cell(0.5 if plan == BOTH else 1.0, 1.0) for plan in plans}
    drawn = [[(0.0, 1.0), (found, 0.5)] for found in (1.0, 2.0, 3.0, 4.0)]
    assert score([[(0.0, 1.0), (2.0, 0.5)]], table, drawn) == pytest.approx(
        ((1 - 1 / 1) + (1 - 1 / 0.75) + 1 + 1) / 4, abs=0.01
    )


def test_where_nothing_gains_there_is_no_score() -> None:
    table = {BASELINE: Cell(1.0, 1.0), BF16: Cell(1.2, 1.0), MALLOC: Cell(1.3, 1.0)}
    assert score([[(0.0, 1.0)]], table, random_curves(table, 10)) is None


# ---- Optuna
class PaperStudy:
    """Asks for what is given, by the places of the ways, and writes down what it is told."""

    def __init__(self, asks: list[dict[str, int]]) -> None:
        self.asks = iter(asks)
        self.told: list[Any] = []

    def ask(self) -> Any:
        places = next(self.asks)

        class Trial:
            def suggest_categorical(self, name: str, choices: list[int]) -> int:
                assert places[name] in choices
                return places[name]

        return Trial()

    def tell(self, trial: object, value: float | None = None, state: object = None) -> None:
        self.told.append(value if state is None else state)


def test_optuna_asks_and_the_table_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = [(0, 1), (1, 0), (1, 0), (1, 1)]
    study = PaperStudy([{"bf16": bf16, "malloc": malloc} for bf16, malloc in asks])

    class Paper:
        class samplers:
            TPESampler = staticmethod(lambda seed: seed)

        class trial:
            class TrialState:
                FAIL = "failed"

        create_study = staticmethod(lambda sampler: study)

    monkeypatch.setattr(search_curves, "optuna", lambda: Paper)
    (curve,) = optuna_curves(TABLE, AXES, 1)
    assert curve == [(0.0, 1.0), (4.0, 0.6)]  # the fourth would end after 11 s, and to try all takes 10
    assert study.told == ["failed", 0.6, 0.6]


def test_the_real_one_finds_the_best_of_a_small_space() -> None:
    pytest.importorskip("optuna", reason="optuna is not installed: pip install -e '.[bench]'")
    curves = optuna_curves({plan: TABLE[plan] for plan in plans_of(AXES)}, AXES, 5)
    assert curves == optuna_curves({plan: TABLE[plan] for plan in plans_of(AXES)}, AXES, 5)
    assert any(curve[-1][1] == 0.5 for curve in curves)
    assert all(seconds <= 10.0 for curve in curves for seconds, _ in curve)


def test_without_optuna_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit, match=r"pip install -e '.\[bench\]'"):
        search_curves.optuna()
