"""What rows that are made up say of a search, and which bars they miss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from benchmarks.search_rows import Searched, newest
from benchmarks.search_space import plans_of, to_json
from benchmarks.search_summary import NOT_MEASURED, Judged, found_after, judged, summary

from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Ratio

Row = dict[str, Any]
WHERE = {"machine": "Pencil and Paper", "torch": "2.13.0", "commit": "abc"}
AXES = {name: [BASELINE, Plan({name: {}})] for name in ("malloc", "bf16", "channels_last", "fused_optimizer")}
PLANS = plans_of(AXES)
BEST = PLANS[-1]
NEXT = BEST.without("malloc")
ELSEWHERE = Plan({"fused_optimizer": {"form": "foreach"}})  # no plan of the space


def row(kind: str, **more: Any) -> Row:
    return {"kind": kind, "script": "train", **WHERE, **more}


def time_of(plan: Plan) -> float:
    """Each technique makes it a fifth faster, malloc a hundredth."""
    return 0.8 ** len(plan.without("malloc").techniques) * (0.99 if "malloc" in plan.techniques else 1.0)


def timed(plan: Plan, number: int = 0, sample_seconds: float | None = None, slowness: float = 1.0) -> Row:
    took = time_of(plan) * slowness if sample_seconds is None else sample_seconds
    return row("timed", round=number, plan=plan.to_json(), sample_seconds=took, failure=None, seconds=10.0)


def tune(plan: Plan, seconds: float = 10.0, curve: Sequence[tuple[float, Plan]] = ()) -> Row:
    curve = curve or [(0.0, BASELINE), (2.0, plan), (seconds, plan)]
    told = [(at, held.to_json()) for at, held in curve]
    return row("tune", number=0, plan=plan.to_json(), seconds=seconds, curve=told)


def duel(found: Plan, *ratios: float) -> Row:
    logs = [math.log(ratio) for ratio in ratios]
    return row("duel", best=BEST.to_json(), found=found.to_json(), log_ratios=logs, failure=None)


def optuna(*curves: Sequence[tuple[float, float]], timed: int = len(PLANS)) -> Row:
    return row("optuna", version="4", timed=timed, curves=list(curves))


SPACE = row("space", axes=to_json(AXES))
ALL = [SPACE, *map(timed, PLANS)]
SLOWLY = [(0.0, 1.0), (60.0, 0.51)]


def one(*rows: Row) -> Judged:
    (found,) = judged("train", Searched([*ALL, *rows]))
    return found


def test_a_tune_that_finds_the_next_best_soon_holds_all_bars() -> None:
    found = one(tune(NEXT), duel(NEXT, 1.0, 1.02, 1.01), optuna(SLOWLY, SLOWLY, SLOWLY))
    assert (found.plans, found.exhaustive_seconds, found.optuna_seconds) == (16, 160.0, 60.0)
    assert found.best == pytest.approx(0.99 * 0.8**3)
    assert found.found == pytest.approx(0.8**3)
    assert found.regret is not None
    assert found.regret.value == pytest.approx(1.01, abs=1e-4)
    assert found.of_exhaustive == pytest.approx(1 / 16)
    assert found.of_optuna == pytest.approx(1 / 6)
    assert found.score is not None
    assert found.score > 0.8
    assert found.missed == []


@pytest.mark.parametrize(
    ("rows", "missed"),
    [
        ([tune(NEXT), duel(NEXT, 1.04, 1.05), optuna(SLOWLY)], ["regret above 3%"]),
        ([tune(NEXT), optuna(SLOWLY)], ["regret above 3%"]),  # it was not measured
        (
            [tune(NEXT), duel(NEXT, 0.99, 1.0), duel(NEXT, 1.05, 1.06), optuna(SLOWLY)],
            ["regret above 3%"],
        ),
        (
            [tune(NEXT, 17.0), duel(NEXT, 1.0, 1.0), optuna([(0.0, 1.0), (90.0, 0.5)])],
            ["more than 0.1 of the time of trying all"],
        ),
        (
            [tune(NEXT), duel(NEXT, 1.0, 1.0), optuna([(0.0, 1.0), (40.0, 0.5)])],
            ["more than 0.2 of Optuna's time"],
        ),
        ([tune(NEXT), duel(NEXT, 1.0, 1.0)], ["more than 0.2 of Optuna's time"]),  # nobody asked it
        (
            [
                tune(NEXT, 60.0, [(0.0, BASELINE), (60.0, NEXT)]),
                duel(NEXT, 1.0, 1.0),
                optuna([(0.0, 1.0), (400.0, 0.5)]),
            ],
            ["more than 0.1 of the time of trying all", "score below 0.8"],
        ),
    ],
)
def test_a_bar_that_is_missed_is_named(rows: list[Row], missed: list[str]) -> None:
    assert one(*rows).missed == missed


def test_where_nothing_is_found_it_is_no_better_than_what_all_begin_with() -> None:
    found = one(tune(BASELINE), duel(BASELINE, 1.9, 2.0), optuna(SLOWLY))
    assert (found.found, found.optuna_seconds, found.of_optuna) == (1.0, 0.0, math.inf)
    assert [words.split()[0] for words in found.missed] == ["regret", "more", "score"]


def test_what_optuna_said_of_fewer_rows_does_not_count() -> None:
    assert one(tune(NEXT), optuna(SLOWLY, timed=7)).optuna_seconds is None


def test_a_plan_from_outside_of_the_space_has_a_time_and_is_none_of_it() -> None:
    found = one(tune(ELSEWHERE), timed(ELSEWHERE, sample_seconds=0.4))
    assert found.found == pytest.approx(0.4)
    assert found.plans == 16
    assert found.best == pytest.approx(0.99 * 0.8**3)
    assert one(tune(ELSEWHERE)).found is None


def test_a_space_that_is_not_timed_to_its_end_is_not_judged() -> None:
    rows = [SPACE, *map(timed, PLANS[:-1]), tune(NEXT)]
    assert list(judged("train", Searched(rows))) == []
    assert summary(rows) == NOT_MEASURED == summary([])


def test_rounds_on_a_faster_and_a_slower_machine_tell_the_same() -> None:
    """A time is over the round's own baseline: three processes, of which one was slow."""
    others = [timed(BASELINE, 1, slow) for slow in (2.0, 2.0, 9.0)]
    table = Searched([*ALL, *others, timed(BEST, 1, slowness=2.2)]).table()
    assert table[BEST].time == pytest.approx(time_of(BEST) * math.sqrt(1.1))
    assert table[NEXT].time == pytest.approx(time_of(NEXT))
    assert table[BASELINE].time == 1.0


def test_a_plan_that_failed_once_has_failed() -> None:
    failed = {**timed(BEST, 1), "sample_seconds": None, "failure": "it did not apply"}
    searched = Searched([*ALL, timed(BASELINE, 1), failed, tune(NEXT), duel(NEXT, 1.0, 1.0)])
    assert searched.table()[BEST].time is None
    (found,) = judged("train", searched)
    assert found.best == pytest.approx(time_of(NEXT))


def test_only_what_the_newest_hasten_measured_counts() -> None:
    older = [{**each, "commit": "old"} for each in [*ALL, tune(BASELINE)]]
    ((script, searched),) = newest([*older, *ALL, tune(NEXT)])
    assert (script, len(searched.rows)) == ("train", len(ALL) + 1)


def test_the_table_says_what_was_found_and_what_is_missed() -> None:
    rows = [*ALL, tune(NEXT), duel(NEXT, 1.0, 1.02, 1.01), optuna(SLOWLY)]
    *_, line, _, where = summary(rows).splitlines()
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["train", "16", "1.97x", "1.95x"]
    assert cells[4].startswith("+1.0% (")
    assert cells[5:11] == ["2 s", "10 s", "0.06 of 160 s", "60 s", "0.03", "0.17"]
    assert cells[-1] == "nothing"
    assert where == "Measured on Pencil and Paper, torch 2.13.0, hasten abc."


def test_found_is_what_stayed() -> None:
    turned = tune(NEXT, 10.0, [(0.0, BASELINE), (2.0, NEXT), (4.0, BEST), (6.0, NEXT), (10.0, NEXT)])
    late = tune(NEXT, 10.0, [(0.0, BASELINE), (4.0, BEST)])
    assert [found_after(one) for one in (turned, late, tune(BASELINE, curve=[(0.0, BASELINE)]))] == [6, 10, 0]


def test_the_worst_of_several_comparisons_is_the_regret() -> None:
    searched = Searched([duel(NEXT, 0.98, 1.0), duel(NEXT, 1.01, 1.03), duel(BEST, 2.0, 2.1), duel(NEXT)])
    regret = searched.regret(NEXT)
    assert isinstance(regret, Ratio)
    assert regret.value == pytest.approx(1.02, abs=1e-3)
    assert searched.regret(BASELINE) is None
