"""A plan that shortens nothing but the start: where it is looked for, and what it claims."""

from __future__ import annotations

import io
import json
import math
import time
from dataclasses import replace

import pytest

from hasten.plans.files import read_plan
from hasten.records.plan import BASELINE
from hasten.records.result import TuneResult
from hasten.report.conclusion import conclusion_words
from hasten.report.console import open_console
from hasten.report.machine_readable import tune_json
from hasten.report.progress import Silent
from hasten.report.reasons import reason_words, why_not_words
from hasten.report.terminal import print_tune
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.history import past_tunes
from hasten.tuning.pipeline import tune
from tests.bench.made_up import unchecked
from tests.tuning.test_pipeline import PLAN_PATH, Paper, paper, plan_of, request

__all__ = ["paper"]
PLAN = plan_of("lazy_dynamo", "frozen_imports", "malloc")
EFFECTS = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
SHORT, LONG = 1000, 100_000  # steps of 10 ms; the start takes 2 s


def tuned(paper: Paper, steps: int | None = SHORT, own: float = 0.25, budget: float = 250.0) -> TuneResult:
    """``own``: seconds that hasten's command takes before it starts the script's process."""
    paper.planned_steps = steps
    return tune(replace(request(budget), began=time.monotonic() - own), Silent())


def test_where_nothing_else_is_faster_a_shorter_start_is_the_plan(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    assert (result.outcome, result.plan, result.parts) == ("gain", PLAN, ("start",))
    assert result.only_starts_sooner
    assert [plan for plan, *_ in paper.guarded] == [PLAN]
    ((plan, effort),) = paper.confirmed
    assert (plan, effort.looks, effort.claims) == (PLAN, 0, 10)
    assert result.speedup is not None
    # of 12 s, 1.4 s of the start; hasten takes 0.25 s, and 0.1 s in the script's process
    assert result.speedup.value == pytest.approx(12.0 / (12.0 - 1.4 + 0.35), rel=0.02)
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
    over = "a gain over whole stretches of the run, start and steps included"
    assert reason_words(row.reason) == f"{over}: lazy_dynamo, frozen_imports, malloc"
    assert not {row.technique for row in result.refused} & {"lazy_dynamo", "frozen_imports"}


def test_the_report_claims_no_faster_training(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    out = io.StringIO()
    print_tune(result, open_console(out, width=300), "train.py", PLAN_PATH)
    text = out.getvalue()
    assert "It starts sooner: a run as long as this is 1.1" in text
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
@pytest.mark.parametrize(("own", "claimed"), [(0.2, True), (1.4, False)])
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


def test_where_steps_gain_the_start_is_a_part_of_that_plan(paper: Paper) -> None:
    paper.effects = {**EFFECTS, "bf16": 0.7}
    result = tuned(paper, budget=400.0)
    assert "bf16" in result.plan.techniques
    assert result.parts == ()
    assert not result.only_starts_sooner


def test_a_run_is_the_start_all_steps_and_what_comes_between_them(paper: Paper) -> None:
    paper.effects = EFFECTS
    result = tuned(paper)
    assert result.ratio is not None
    assert math.log(result.ratio.value) == pytest.approx(math.log(10.95 / 12.0), abs=0.01)
