"""A plan that shortens nothing but the start: where it is looked for, and what it claims."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hasten.inside.techniques.catalog import CATALOG
from hasten.plans.files import read_plan
from hasten.records.plan import BASELINE
from hasten.records.result import TuneResult
from hasten.records.run_forecast import SeenProcess
from hasten.records.trial import Ratio, Trial
from hasten.report.conclusion import conclusion_words
from hasten.report.console import open_console
from hasten.report.machine_readable import tune_json
from hasten.report.progress import Silent
from hasten.report.reasons import reason_words, why_not_words
from hasten.report.terminal import print_tune
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.candidate import Candidate
from hasten.tuning.conclusion import Found, conclude
from hasten.tuning.history import past_tunes
from hasten.tuning.pipeline import tune
from hasten.tuning.resolution import resolution_of_search
from hasten.tuning.starting_sooner import PlannedRun, judged, together
from tests.bench.made_up import facts, observation, trial, unchecked, verdict
from tests.tuning.test_pipeline import PLAN_PATH, Paper, paper, plan_of, request

__all__ = ["paper"]
PLAN = plan_of("lazy_dynamo", "frozen_imports", "malloc")
EFFECTS = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
SHORT, LONG = 1000, 100_000  # steps of 10 ms; the start takes 2 s


def tuned(
    paper: Paper,
    steps: int | None = SHORT,
    own: float | None = 0.35,
    budget: float = 250.0,
    loaderless: bool = True,
) -> TuneResult:
    """``own``: seconds that ``hasten run`` takes for itself. ``loaderless``: nothing is known of epochs,
    whose ends might be still to come.
    """
    paper.planned_steps = steps
    if loaderless:
        paper.watched = observation(loaders=())
    paper.own_start = own
    return tune(request(budget), Silent())


def test_where_nothing_else_is_faster_a_shorter_start_is_the_plan(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    assert (result.outcome, result.plan, result.parts) == ("gain", PLAN, ("start",))
    assert result.only_starts_sooner
    assert [plan for plan, *_ in paper.guarded] == [PLAN]
    ((plan, effort),) = paper.confirmed
    assert (plan, effort.looks, effort.claims) == (PLAN, 0, 20)
    assert result.speedup is not None
    # a plain start takes 1.9 s, then 0.57 s, and hasten 0.35 s for itself
    assert result.speedup.value == pytest.approx((1.9 + 9.99) / (0.57 + 0.35 + 9.99), rel=0.001)
    assert result.steps_ratio is not None
    assert result.steps_ratio.value == pytest.approx(1.0, rel=1e-3)


def test_the_forecast_has_it_in_seconds(paper: Paper) -> None:
    paper.effects = EFFECTS
    found = tuned(paper).forecast
    assert found is not None
    assert (found.of, found.steps) == ("run", SHORT)
    assert found.before.value == pytest.approx(12.0, rel=0.02)
    assert found.after.value == pytest.approx(10.95, rel=0.02)
    assert found.pays_runs is not None
    assert (found.pays_epochs, found.pays_steps) == (None, None)


def test_it_is_written_down_as_what_it_is(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    saved = read_plan(PLAN_PATH)
    assert saved.plan == PLAN
    assert saved.measured["parts"] == ["start"]
    (past,) = past_tunes(Workspace(find_script("train.py", [])))
    assert past.result == result
    assert json.loads(json.dumps(tune_json(result)))["parts"] == ["start"]
    row = result.tried[-1]
    assert (row.technique, row.together, row.kept) == ("start", PLAN, True)
    assert reason_words(row.reason) == (
        "a gain over a run of this length: lazy_dynamo, frozen_imports, malloc"
    )
    assert not {row.technique for row in result.refused} & {"lazy_dynamo", "frozen_imports"}


def test_the_report_claims_no_faster_training(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    out = io.StringIO()
    print_tune(result, open_console(out, width=300), "train.py", PLAN_PATH)
    text = out.getvalue()
    assert "It starts sooner: a run as long as this is 1.0" in text
    assert "Steps gain nothing that is certain (1.00x" in text
    assert "The whole plan trains" not in text
    assert "whole stretches of the run, with everything" not in text
    assert "hasten run train.py" in text


@pytest.mark.parametrize("steps", [None, LONG])
def test_a_start_is_no_reason_for_a_plan_unless_a_run_is_known_to_be_short(
    paper: Paper, steps: int | None
) -> None:
    paper.effects = EFFECTS
    result = tuned(paper, steps)
    assert (result.outcome, result.plan, paper.confirmed) == ("no-gain", BASELINE, [])
    why = {row.technique: why_not_words(row.reasons[0]) for row in result.refused}
    assert why["lazy_dynamo"].startswith("it shortens only the start, and nothing else was found")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("own", "claimed"), [(0.3, True), (1.4, False)])
def test_what_saves_no_more_than_hasten_takes_itself_is_no_plan(
    paper: Paper, own: float, claimed: bool
) -> None:
    paper.effects = EFFECTS
    result = tuned(paper, own=own)
    assert (result.outcome == "gain") is claimed
    if not claimed:
        assert (result.plan, result.speedup) == (BASELINE, None)
        assert conclusion_words(result).startswith("nothing tried is faster")
        assert not result.tried[-1].kept
        assert read_plan(PLAN_PATH).plan == BASELINE


@pytest.mark.attack("truth")
@pytest.mark.parametrize("slower", [1.03, 1.3])
def test_what_makes_steps_slower_is_no_plan_however_soon_it_starts(paper: Paper, slower: float) -> None:
    paper.effects, paper.slows_steps = EFFECTS, slower
    result = tuned(paper, steps=300)
    assert (result.outcome, result.plan) == ("no-gain", BASELINE)
    assert [plan for plan, _ in paper.confirmed] == [PLAN]


def test_where_steps_gain_by_it_that_is_the_claim(paper: Paper) -> None:
    """A smaller heap, kept: then steps are faster than before, and longer runs gain, too."""
    paper.effects, paper.slows_steps = EFFECTS, 0.8
    result = tuned(paper)
    assert (result.outcome, result.plan, result.parts) == ("gain", PLAN, ())
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(1 / 0.8, rel=1e-3)


def test_what_has_no_effect_is_left_out(paper: Paper) -> None:
    paper.effects, paper.idle = {"frozen_imports": 0.3}, "lazy_dynamo"
    result = tuned(paper)
    assert (result.outcome, result.plan) == ("gain", plan_of("frozen_imports", "malloc"))
    assert [plan for plan, _ in paper.confirmed] == [PLAN, result.plan]


@pytest.mark.attack("truth")
def test_without_the_guards_word_nothing_is_claimed_of_a_start_either(paper: Paper) -> None:
    paper.effects = EFFECTS
    paper.unseen = [unchecked("noise")]
    result = tuned(paper)
    assert (result.outcome, result.plan, paper.confirmed) == ("no-gain", BASELINE, [])


def test_where_the_rest_fails_in_fresh_processes_the_start_is_left(paper: Paper) -> None:
    paper.effects, paper.breaks = {**EFFECTS, "bf16": 0.7}, "bf16"
    result = tuned(paper, budget=400.0)
    assert (result.outcome, result.plan, result.parts) == ("gain", PLAN, ("start",))
    left = [row for row in result.tried if row.technique == "bf16" and not row.kept]
    words = "left out: the plan with it failed: the script's process was killed"
    assert [reason_words(row.reason) for row in left] == [words]


def test_where_steps_gain_the_start_is_a_part_of_that_plan(paper: Paper) -> None:
    paper.effects = {**EFFECTS, "bf16": 0.7}
    result = tuned(paper, budget=400.0)
    assert "bf16" in result.plan.techniques
    assert result.parts == ()
    assert not result.only_starts_sooner


def test_where_an_epochs_end_is_still_to_come_nothing_is_known_of_a_run(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper, loaderless=False)
    assert (result.outcome, paper.confirmed) == ("no-gain", [])


@pytest.mark.attack("truth")
def test_without_what_hasten_itself_takes_nothing_is_claimed_of_a_run(paper: Paper) -> None:
    paper.effects = EFFECTS
    assert tuned(paper, own=None).outcome == "no-gain"
    assert paper.confirmed == []


@pytest.mark.attack("truth")
@pytest.mark.parametrize("stops", ["lazy_dynamo", "all"])
def test_what_the_guard_stops_is_told_and_not_advised(paper: Paper, stops: str) -> None:
    paper.effects = {**EFFECTS, "frozen_imports": 0.3}
    paper.allowed = lambda plan: stops != "all" and stops not in plan.techniques
    result = tuned(paper, budget=400.0)
    if stops == "all":
        assert (result.outcome, paper.confirmed) == ("no-gain", [])
    else:
        assert (result.outcome, set(result.plan.techniques)) == ("gain", {"frozen_imports", "malloc"})
    told = {row.technique: reason_words(row.reason) for row in result.tried if row.method == "guard"}
    assert told["lazy_dynamo"].startswith("the guard stopped it")
    assert "lazy_dynamo" not in {row.technique for row in result.refused}


@pytest.mark.attack("truth")
def test_where_the_guard_leaves_nothing_that_starts_sooner_nothing_is_confirmed(paper: Paper) -> None:
    paper.effects = EFFECTS
    paper.allowed = lambda plan: not plan.techniques.keys() & EFFECTS.keys()
    result = tuned(paper, budget=400.0)
    assert (result.outcome, paper.confirmed) == ("no-gain", [])


@pytest.mark.attack("truth")
def test_what_the_guard_has_stopped_gets_no_second_try(paper: Paper) -> None:
    paper.effects, paper.breaks = {**EFFECTS, "frozen_imports": 0.3, "bf16": 0.7}, "bf16"
    paper.allowed = lambda plan: "lazy_dynamo" not in plan.techniques
    result = tuned(paper, budget=400.0)
    assert set(result.plan.techniques) == {"frozen_imports", "malloc"}
    assert ["lazy_dynamo" in plan.techniques for plan, *_ in paper.guarded].count(True) == 1


# ---- the arithmetic
RUN = PlannedRun(steps=101, around=3.0, start_seconds=2.2, own_start=0.4)
A = SeenProcess(2.4, 0.05, lead_seconds=0.5, own_seconds=0.2)
B = SeenProcess(1.35, 0.06, lead_seconds=0.4, own_seconds=0.25, setup_seconds=0.3)


def of_processes(a: SeenProcess, b: SeenProcess, count: int = 6, spread: float = 0.0, **more: Any) -> Trial:
    ratios = [b.step_seconds / a.step_seconds * (1 + spread * (k % 2)) for k in range(count)]
    both = {"processes_a": (a,) * count, "processes_b": (b,) * count}
    return trial(ratios, PLAN, **{**both, "claims": 20, **more})


def test_a_run_is_its_start_its_steps_what_is_around_them_and_what_hasten_takes() -> None:
    """Alone, a plain start takes 2.0 s; beside another it took 2.2, so the plan's 1.1 s are 1.0."""
    found = RUN.over_runs(of_processes(A, B))
    plain = 2.0 + 0.5 + 100 * 0.05 + 3.0
    planned = 0.4 + 0.05 + 0.3 + 1.0 + 0.4 + 100 * 0.06 + 3.0
    assert found.log_ratios == pytest.approx([math.log(planned / plain)] * 6)
    assert found.parts == ("start",)
    assert found.steps_share == pytest.approx(6.0 / planned)
    assert found.step_log_ratios == pytest.approx([math.log(0.06 / 0.05)] * 6)


@pytest.mark.parametrize(("steps", "may"), [(101, True), (400, False)])
def test_what_can_come_to_no_claim_is_not_looked_at(steps: int, may: bool) -> None:
    assert replace(RUN, steps=steps).may_gain(0.05) is may


EVEN = replace(B, start_seconds=0.85, step_seconds=0.05)  # as A's


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (of_processes(A, EVEN), "a gain over a run of this length"),
        (of_processes(A, replace(EVEN, step_seconds=0.04)), "a gain"),
        (of_processes(A, B), "slower"),
        (
            of_processes(A, replace(EVEN, start_seconds=1.5), spread=0.01),
            "a gain over a run of this length, but not one that is certain enough to be claimed",
        ),
        (of_processes(A, replace(EVEN, start_seconds=2.4)), "slower over a run of this length"),
        (of_processes(A, EVEN, failure="killed"), "killed"),
        (
            of_processes(A, EVEN, count=3, cut_short=True),
            "could not be measured",
        ),
        (of_processes(A, replace(EVEN, start_seconds=0.2)), "no gain found"),
    ],
)
def test_each_result_has_its_words(told: Trial, words: str) -> None:
    row, _ = judged(told, replace(RUN, around=0.0))
    assert reason_words(row.reason) == f"{words}: lazy_dynamo, frozen_imports, malloc"
    assert row.kept is (words in ("a gain", "a gain over a run of this length"))


def test_a_run_pays_for_no_set_up_in_addition() -> None:
    steps = of_processes(A, replace(B, step_seconds=0.03), setup_seconds=0.3)
    of_run = RUN.over_runs(of_processes(A, EVEN, setup_seconds=0.3))
    for found, is_told in ((steps, True), (of_run, False)):
        result = conclude(Found(facts(), 100.0, verdict=verdict(), trial=found))
        assert result.outcome == "gain"
        assert (result.breakeven_steps is not None) is is_told


def test_a_row_of_runs_says_nothing_of_what_a_search_could_tell() -> None:
    row, _ = judged(of_processes(A, replace(EVEN, start_seconds=2.0), spread=0.01), RUN)
    row = replace(row, ratio=Ratio(1.0, 0.95, 1.05, 5, "pairs"))
    assert resolution_of_search([row], None) is None
    assert resolution_of_search([replace(row, method="pairs")], None) is not None


def test_a_start_that_is_not_known_is_not_saved_whole() -> None:
    _, found = judged(of_processes(A, replace(EVEN, start_seconds=0.2)), RUN)
    assert found.parts == ()


def test_what_shortens_the_start_comes_with_what_steadies_and_never_without() -> None:
    start = [Candidate(CATALOG[name], [{}]) for name in ("frozen_imports", "lazy_dynamo")]
    steady, other = Candidate(CATALOG["malloc"], [{}]), Candidate(CATALOG["bf16"], [{}])
    assert together([other, steady, *start]) == plan_of("frozen_imports", "lazy_dynamo", "malloc")
    assert together([other, steady]) == BASELINE
