"""The bench without processes answers from its table."""

from __future__ import annotations

import math

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.records.plan import BASELINE, Plan

A, B, BOTH = Plan({"a": {}}), Plan({"b": {}}), Plan({"a": {}, "b": {}})


def test_effects_multiply() -> None:
    bench = ScriptedBench({"a": 0.5, "b": 0.8})
    assert bench.factor(BASELINE) == 1.0
    assert bench.factor(BOTH) == pytest.approx(0.4)
    trial = bench.compare(A, BOTH, 1.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)
    assert trial.ratio.low < 0.8 < trial.ratio.high
    assert trial.step_seconds_a == pytest.approx(0.01)


def test_what_is_named_together_replaces_the_product() -> None:
    bench = ScriptedBench({"a": 0.5, "b": 0.8, "c": 0.9}, together={frozenset({"a", "b"}): 0.7})
    assert bench.factor(A) == 0.5
    assert bench.factor(Plan({"a": {}, "b": {}, "c": {}})) == pytest.approx(0.63)


def test_the_noise_is_as_wide_as_asked() -> None:
    trial = ScriptedBench({"a": 0.5}, spread=0.1).compare(BASELINE, A, 1.0)
    assert [x - math.log(0.5) for x in trial.log_ratios] == pytest.approx([-0.1, 0.1] * 3)


def test_a_failing_technique_has_no_ratio() -> None:
    trial = ScriptedBench({"a": 0.5}, failures={"a": "out of memory"}).compare(BASELINE, A, 1.0)
    assert trial.failure == "out of memory"
    assert trial.ratio is None
    assert trial.upper() == math.inf


def test_what_was_asked_is_remembered() -> None:
    bench = ScriptedBench({})
    bench.compare(BASELINE, A, 1.0)
    bench.compare(B, BOTH, 1.0)
    assert bench.asked == [(BASELINE, A), (B, BOTH)]
