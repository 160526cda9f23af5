"""``hasten tune --only``: of all techniques those that were named are tried, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.inside.techniques.catalog import CATALOG
from hasten.records.plan import Plan
from hasten.records.reasons import WhyNot
from hasten.records.result import TuneResult
from hasten.report.progress import Silent
from hasten.scripts.workspace import find_script
from hasten.tuning.pipeline import tune

from ..cli.asked import asked_by
from .test_pipeline import Paper, request
from .test_pipeline import paper as paper

OTHERS = (WhyNot("not named", "--only names others"),)


def tuned(*only: str) -> TuneResult:
    return tune(replace(request(), only=frozenset(only)), Silent())


def test_what_is_not_named_is_not_tried_and_says_so(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    result = tuned("bf16", "malloc")
    assert result.plan == Plan({"bf16": {}})
    assert {row.technique for row in result.tried} == {"bf16", "malloc"}
    refused = {row.technique: row.reasons for row in result.refused}
    assert {refused[name] for name in CATALOG if name not in ("bf16", "malloc")} == {OTHERS}


def test_threads_are_measured_where_they_are_named_alone(paper: Paper) -> None:
    assert tuned("bf16").threads is None
    assert tuned("bf16", "threads").threads is not None


def test_what_is_named_and_does_not_apply_says_why(paper: Paper) -> None:
    paper.watched = replace(paper.watched, loaders=())
    result = tuned("dataset_in_ram")
    assert (result.outcome, result.tried) == ("no-gain", ())
    (reasons,) = (row.reasons for row in result.refused if row.technique == "dataset_in_ram")
    assert reasons == (WhyNot("said", "the training reads from no DataLoader"),)


@pytest.mark.parametrize("words", [(), ("--only", "bf16"), ("--only", "bf16", "--only", "malloc")])
def test_the_tune_is_told_what_was_named(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    asked = asked_by(monkeypatch, *words)
    assert asked.script == find_script("train.py", [])
    assert asked.only == frozenset(words[1::2])
