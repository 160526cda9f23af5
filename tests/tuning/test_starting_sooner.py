"""A plan that shortens nothing but the start: where it is looked for, and what it claims."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.plans.files import read_plan
from hasten.records.plan import BASELINE
from hasten.records.result import TuneResult
from hasten.records.trial import Ratio
from hasten.report.conclusion import conclusion_words
from hasten.report.console import open_console
from hasten.report.forecast import start_claim, start_lines
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
START = plan_of("lazy_dynamo", "frozen_imports")
SHORT, LONG = 1000, 100_000  # steps of 10 ms; the start takes 2 s


def tuned(paper: Paper, steps: int | None = SHORT, own: float = 0.25, budget: float = 150.0) -> TuneResult:
    """``own``: seconds that hasten's own start takes."""
    paper.planned_steps = steps
    return tune(replace(request(budget), began=time.monotonic() - own), Silent())


def test_where_nothing_else_is_faster_a_shorter_start_is_the_plan(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    result = tuned(paper)
    assert (result.outcome, result.plan, result.parts) == ("gain", START, ("start",))
    assert [plan for plan, *_ in paper.guarded] == [START]
    ((plan, effort),) = paper.confirmed
    assert (plan, effort.looks, effort.claims) == (START, 0, 10)
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(1 / 0.3, rel=1e-3)
    assert result.start is not None
    assert result.start.before == pytest.approx(2.0)
    assert result.start.after == pytest.approx(0.6, rel=0.01)
    assert result.start.saved.value == pytest.approx(1.4 - result.start.own_seconds, rel=0.01)
    assert 0.35 <= result.start.own_seconds < 0.6
    assert result.start.run_seconds == pytest.approx(12.0)
    assert (result.forecast, result.pace, result.steps_ratio) == (None, None, None)


def test_it_is_written_down_as_what_it_is(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    result = tuned(paper)
    saved = read_plan(PLAN_PATH)
    assert saved.plan == START
    assert saved.measured["parts"] == ["start"]
    (past,) = past_tunes(Workspace(find_script("train.py", [])))
    assert past.result == result
    told = json.loads(json.dumps(tune_json(result)))
    assert told["parts"] == ["start"]
    assert told["start"]["saved"]["value"] == result.start.saved.value if result.start else None
    (row,) = (row for row in result.tried if row.method == "starts")
    assert (row.technique, row.together, row.kept) == ("start", START, True)
    assert reason_words(row.reason) == "a gain in the time to the first step: lazy_dynamo, frozen_imports"
    assert not {row.technique for row in result.refused} & START.techniques.keys()


def test_the_report_claims_no_faster_training(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    result = tuned(paper)
    out = io.StringIO()
    print_tune(result, open_console(out), "train.py", PLAN_PATH)
    text = out.getvalue()
    assert result.start is not None
    assert result.speedup is not None
    assert start_claim(result.start, result.speedup) in text.replace("\n", " ")
    assert "trains" not in text.replace("Train under it", "")
    assert "whole stretches" not in text
    assert "hasten run train.py" in text


def test_the_claim_in_words(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    start = tuned(paper).start
    assert start is not None
    start = replace(start, saved=replace(start.saved, value=1.05, low=0.9, high=1.2), own_seconds=0.35)
    ratio = Ratio(3.33, 3.2, 3.4, 8, "pairs")
    assert start_claim(start, ratio) == (
        "A run starts 1.1 s (0.9 to 1.2) sooner under the plan, hasten's own start of 350 ms included "
        "(8 pairs of fresh processes). Training itself is as fast as before."
    )
    both = "2.0 s before, 600 ms under the plan (3.33 times faster, 3.20 to 3.40)"
    assert start_lines(replace(start, after=0.6), ratio) == [
        f"To the end of the first step: {both}.",
        "A run of about 12.0 s gets 9% shorter by that.",
    ]


@pytest.mark.parametrize("steps", [None, LONG])
def test_a_start_is_no_reason_for_a_plan_unless_a_run_is_known_to_be_short(
    paper: Paper, steps: int | None
) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    result = tuned(paper, steps)
    assert (result.outcome, result.plan, paper.confirmed) == ("no-gain", BASELINE, [])
    why = {row.technique: why_not_words(row.reasons[0]) for row in result.refused}
    assert why["lazy_dynamo"].startswith("it shortens only the start, and nothing else was found")


@pytest.mark.attack("truth")
def test_what_saves_less_than_hastens_own_start_is_no_plan(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.9, "lazy_dynamo": 0.9}  # 0.38 of 2 s
    result = tuned(paper, own=0.6)
    assert (result.outcome, result.plan, result.speedup) == ("no-gain", BASELINE, None)
    assert conclusion_words(result).startswith("nothing tried is faster")
    (row,) = (row for row in result.tried if row.method == "starts")
    assert not row.kept
    assert reason_words(row.reason) == (
        "a gain in the time to the first step, but not by more than hasten's own start takes: "
        "lazy_dynamo, frozen_imports"
    )
    assert read_plan(PLAN_PATH).plan == BASELINE


def test_what_has_no_effect_is_left_out(paper: Paper) -> None:
    paper.effects, paper.idle = {"frozen_imports": 0.6}, "lazy_dynamo"
    result = tuned(paper)
    assert (result.outcome, result.plan) == ("gain", plan_of("frozen_imports"))
    assert [plan for plan, _ in paper.confirmed] == [START, plan_of("frozen_imports")]
    assert (result.tried[-1].technique, result.tried[-1].together) == ("frozen_imports", BASELINE)


@pytest.mark.attack("truth")
def test_without_the_guards_word_nothing_is_claimed_of_a_start_either(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5}
    paper.unseen = [unchecked("noise")]
    result = tuned(paper)
    assert (result.outcome, result.plan, paper.confirmed) == ("no-gain", BASELINE, [])


def test_where_the_rest_fails_in_fresh_processes_the_start_is_left(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5, "bf16": 0.7}
    paper.breaks = "bf16"
    result = tuned(paper, budget=400.0)
    assert (result.outcome, result.plan, result.parts) == ("gain", START, ("start",))


def test_where_steps_gain_the_start_is_a_part_of_that_plan(paper: Paper) -> None:
    paper.effects = {"frozen_imports": 0.6, "lazy_dynamo": 0.5, "bf16": 0.7}
    result = tuned(paper, budget=400.0)
    assert "bf16" in result.plan.techniques
    assert (result.start, result.parts) == (None, ())
    assert Path(PLAN_PATH).exists()
