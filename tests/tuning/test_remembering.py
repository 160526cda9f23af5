"""A tune goes on where one of the same training stopped, and claims only what it has measured itself."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from hasten.bench.comparing.steps import Rhythm
from hasten.bench.fake import ScriptedBench
from hasten.bench.observe import WatchOn
from hasten.bench.trials import Trials
from hasten.records.observation import Observation
from hasten.records.plan import Plan
from hasten.records.result import TuneResult
from hasten.records.trial import Ratio, Trial
from hasten.report.progress import Silent
from hasten.tuning import pipeline
from hasten.tuning.pipeline import tune
from hasten.tuning.recording import LoggedBench
from hasten.tuning.remembering import RememberingBench, is_evidence
from tests.bench.made_up import machine, trial

from .test_pipeline import Paper, PaperBench, plan_of, request
from .test_pipeline import paper as paper

EFFECTS = {"dataset_in_ram": 0.5, "bf16": 0.7, "malloc": 0.9}
FOUND = plan_of(*EFFECTS)


def measured(paper: Paper, fresh: bool = False, arguments: tuple[str, ...] = ()) -> tuple[TuneResult, int]:
    """What a tune finds, and how many comparisons its search has measured for that."""
    before = len(paper.granted)
    result = tune(request(fresh=fresh, arguments=arguments), Silent())
    return result, len(paper.granted) - before


def change(statement: str) -> None:
    """Of the journal."""
    with closing(sqlite3.connect(".hasten/journal.db")) as database, database:
        database.execute(statement)


def test_a_second_tune_measures_what_the_first_has_not(paper: Paper) -> None:
    paper.effects = EFFECTS
    first, measured_first = measured(paper)
    second, measured_second = measured(paper)
    assert measured_second <= measured_first / 2
    assert second.plan == first.plan == FOUND
    assert [row.technique for row in second.tried if not row.ablation] == [
        row.technique for row in first.tried if not row.ablation
    ]
    assert sum(row.earlier for row in second.tried) >= len(first.tried) / 2
    assert not any(row.earlier for row in first.tried)


class Remembered(Silent):
    def __init__(self) -> None:
        self.budgets: list[float] = []

    def remembered(self, comparisons: int, budget: float) -> None:
        self.budgets.append(budget)


@pytest.mark.parametrize(
    ("state", "most", "shorter"),
    [
        ("gain", 600.0, True),
        ("gain", 0.0, False),  # somebody names one
        ("no-gain", 600.0, False),  # the machine may be quieter now
        ("named", 600.0, False),  # it may have been too short
        ("interrupted", 600.0, False),
    ],
)
def test_a_budget_that_nobody_named_is_half_of_what_an_earlier_tune_took(
    paper: Paper, state: str, most: float, shorter: bool
) -> None:
    """Of one that found a gain: others may have left something to do."""
    paper.effects = EFFECTS
    first = tune(replace(request(), budget_most=0.0 if state == "named" else 600.0), Silent())
    change("UPDATE tunes SET result = json_set(result, '$.tune_seconds', 120.0)")
    if state == "interrupted":
        change("UPDATE tunes SET state = 'interrupted', result = NULL")
    if state == "no-gain":
        change("UPDATE tunes SET result = json_set(result, '$.outcome', 'no-gain')")
    told = Remembered()
    again = tune(replace(request(), budget_most=most), told)
    assert again.plan == first.plan
    (budget,) = told.budgets
    assert budget == 48 if shorter else budget >= 150


def test_a_script_is_the_same_however_its_path_is_typed(paper: Paper) -> None:
    paper.effects = EFFECTS
    for path in ("train.py", os.path.abspath("train.py")):
        result = tune(request(script=path), Silent())
    assert any(row.earlier for row in result.tried)


@pytest.mark.attack("truth")
def test_what_is_claimed_is_checked_and_confirmed_anew(paper: Paper) -> None:
    """Also where the earlier tune was wrong about all of it."""
    paper.effects = EFFECTS
    measured(paper)
    paper.guarded, paper.confirmed, paper.effects = [], [], {}
    result, _ = measured(paper)
    assert any(row.earlier and row.kept for row in result.tried)
    assert [plan for plan, *_ in paper.guarded] == [FOUND]
    assert [plan for plan, _ in paper.confirmed] == [FOUND]
    assert (result.outcome, result.plan) == ("no-gain", Plan())


@pytest.mark.parametrize("finished", [1, 3, 6])
def test_a_tune_that_was_stopped_goes_on(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    paper.effects = EFFECTS
    whole = measured(paper)[1]
    change("DELETE FROM trials")
    compare = PaperBench.compare
    asked: list[tuple[Plan, Plan]] = []

    def interrupted(bench: PaperBench, a: Plan, b: Plan, seconds: float) -> Trial:
        if len(asked) == finished:
            raise KeyboardInterrupt
        asked.append((a, b))
        return compare(bench, a, b, seconds)

    with monkeypatch.context() as until:
        until.setattr(PaperBench, "compare", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measured(paper)
    result, rest = measured(paper)
    assert result.plan == FOUND
    assert whole - finished <= rest <= whole - finished + 2  # what is asked for twice is measured once more
    assert sum(row.earlier for row in result.tried) == finished


def another_script(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text("print('training otherwise')")


def another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "this_machine", lambda: machine(cpu_model="Abacus 1"))


def another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "this_machine", lambda: machine(environment={"ANYTHING": "1"}))


def another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.tuning.conclusion.__version__", "0.0.1")


def a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    change("UPDATE trials SET ended = ended - 86500")


def a_clock_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    change("UPDATE trials SET ended = ended + 86500")


def files_that_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    change("UPDATE tunes SET state = 'failed'")


def another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaperBench, "method", lambda *_: "pairs")


def trials_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    change("UPDATE trials SET trial = '{}'")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "changed",
    [
        another_script,
        another_machine,
        another_environment,
        another_version,
        a_day_later,
        a_clock_set_back,
        files_that_changed_meanwhile,
        another_method,
        trials_that_cannot_be_read,
    ],
)
def test_what_was_measured_of_something_else_is_measured_anew(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, changed: Callable[[pytest.MonkeyPatch], None]
) -> None:
    paper.effects = EFFECTS
    first = measured(paper)[1]
    changed(monkeypatch)
    result, again = measured(paper)
    assert again == first
    assert not any(row.earlier for row in result.tried)


def test_other_arguments_are_another_training(paper: Paper) -> None:
    paper.effects = EFFECTS
    first = measured(paper)[1]
    assert measured(paper, arguments=("--epochs", "5"))[1] == first


@pytest.mark.parametrize("changes", [True, False])
def test_local_modules_must_be_as_they_were(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    Path("losses.py").write_text("weight = 1.0")

    def observe(trials: Trials, seconds: float, on: WatchOn) -> tuple[Observation, Rhythm]:
        assert trials.sources is not None
        trials.sources.imported([os.path.abspath("losses.py")])
        return paper.observe(trials, seconds, on)

    monkeypatch.setattr(pipeline, "observe", observe)
    paper.effects = EFFECTS
    first = measured(paper)[1]
    if changes:
        Path("losses.py").write_text("weight = 2.0")
    assert (measured(paper)[1] == first) is changes


@pytest.mark.attack("together")
def test_a_journal_that_was_removed_meanwhile_has_nothing_to_use(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(trials: Trials, seconds: float, on: WatchOn) -> tuple[Observation, Rhythm]:
        Path(".hasten/journal.db").unlink()
        return paper.observe(trials, seconds, on)

    monkeypatch.setattr(pipeline, "observe", observe)
    paper.effects = EFFECTS
    result, _ = measured(paper)
    assert result.plan == FOUND
    assert result.warnings[0].text == ".hasten/journal.db was removed meanwhile"


@pytest.mark.attack("intruders")
def test_a_plan_of_no_known_technique_is_never_asked_for(paper: Paper) -> None:
    paper.effects = EFFECTS
    first, _ = measured(paper)
    change("UPDATE trials SET trial = replace(trial, '\"bf16\"', '\"fp4\"')")
    assert measured(paper)[0].plan == first.plan


def test_fresh_forgets(paper: Paper) -> None:
    """For good: a later tune uses what was measured since."""
    paper.effects = EFFECTS
    measured(paper)
    paper.effects = {"fused_optimizer": 0.6}
    result, again = measured(paper, fresh=True)
    assert again > 0
    assert not any(row.earlier for row in result.tried)
    later, rest = measured(paper)
    assert later.plan == result.plan == plan_of("fused_optimizer")
    assert rest <= again / 2


def test_what_could_not_tell_is_measured_again_and_counts() -> None:
    """While other programs run a comparison may tell nothing: on a quiet machine it must not decide."""
    bench, plan = ScriptedBench({"bf16": 0.9}), plan_of("bf16")
    noisy = trial([0.5, 2.0, 0.9], plan, method="scripted")
    remembering = RememberingBench(cast(LoggedBench, bench), [noisy])
    found = remembering.compare(noisy.a, plan, 1.0)
    assert bench.asked == [(noisy.a, plan)]
    assert found.ratio is not None
    assert found.ratio.count == 3 + 6
    assert not found.earlier


SOUND = trial([0.8, 0.81, 0.79], FOUND)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"failure": "killed", "ratio": None}, False),
        ({"cut_short": True}, False),
        ({"ratio": None}, False),
        ({"ratio": Ratio(math.nan, 0.7, 0.9, 5, "pairs")}, False),
        ({"ratio": Ratio(0.8, 0.0, 0.9, 5, "pairs")}, False),
        ({"ratio": Ratio(0.8, 0.9, 0.7, 5, "pairs")}, False),
        ({"ratio": Ratio(0.8, 0.7, 0.9, 1, "pairs")}, False),
    ],
)
def test_what_failed_or_makes_no_sense_is_no_evidence(changes: dict[str, object], counts: bool) -> None:
    assert is_evidence(replace(SOUND, **changes)) is counts  # type: ignore[arg-type]
