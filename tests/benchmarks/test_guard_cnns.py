"""The summary of the guard's runs on networks, by kind; no training is run here."""

from __future__ import annotations

from typing import Any

from benchmarks import guard_cnns, guard_kinds, turning_units
from benchmarks.guard_cnns import FAULT, HARMLESS, NETWORKS, OF_SINGLE_STEPS


def row(
    accuracy: str = "held", plan: str = HARMLESS, began: str = OF_SINGLE_STEPS, **more: Any
) -> dict[str, Any]:
    usual = {"script": NETWORKS[0], "isa": "", "trainings": 3, "machine": "here", "torch": "2.14"}
    return {**usual, "accuracy": accuracy, "plan": plan, "began": began, **more}


def test_alarms_are_counted_by_what_the_guard_was_and_none_is_left_out() -> None:
    rows = [
        row(began="2026-11-20T00:00:00+00:00"),
        row("not held", began="2026-11-20T00:00:00+00:00"),
        row("not held", began=guard_cnns.MORE_BASELINES, trainings=8),
        *[row() for _ in range(8)],
        row(trainings=8),
        row(trainings=13),
        row("not held", FAULT),
    ]
    text = guard_cnns.summary(rows)
    assert f"| {NETWORKS[0]} | 1 of 11 | 1 of 1 |" in text
    assert "plan: 1 false alarms in 11 harmless runs" in text
    assert "against them: 0 false alarms in 10 harmless runs, at most 25.9%" in text
    assert "Before all that there were 1 in 2." in text
    assert (
        "against 3 of the 11. A closer look cleared all of these but 2, and more baselines cleared 1" in text
    )
    assert "- here, torch 2.14, all that it has: 11" in text


def test_missed_faults_are_told_by_kind_of_model() -> None:
    kind = guard_kinds.KINDS[0]
    rows = [
        {"script": kind, "kind": "harmless", "outcome": "stopped"},
        {"script": kind, "kind": "harmless", "outcome": "passed"},
        {"script": kind, "kind": "harmless", "outcome": "not applicable"},
        {"script": kind, "kind": "fault", "outcome": "passed"},
        {"script": kind, "kind": "fault", "outcome": "stopped"},
    ]
    text = guard_kinds.summary(rows, [row(), row("not held", FAULT)])
    assert f"| {kind} | 1 of 2 | 97.5% | 1 of 2 |" in text
    assert "| convolutional network (the ten above) | 0 of 1 | 95.0% | 0 of 1 |" in text


def test_departures_are_told_by_the_size_of_the_noise() -> None:
    seen = [{"times": 1.0, "losses": [0.01, -0.01]}, {"times": 1.0, "losses": [0.02, 0.02]}]
    rows = [{"script": "one", "seed": 4, "trainings": seen, "channels_last": {"losses": [0.0, 0.0]}}]
    text = turning_units.summary(rows)
    assert text.splitlines()[0] == "| network | 1 times | channels_last |"
    assert text.splitlines()[-1] == "| one, seed 4 | 1.0000% to 2.0000% | 0.0000% |"
