"""Counting false gains; no tune is run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import false_wins
from benchmarks.false_wins import answered_tune, nothing_in_force, rows_of, summary

from hasten.inside.techniques.catalog import CATALOG
from hasten.launch import one_process
from hasten.machine import this_machine
from tests.bench.idle_catalogue import idle_catalogue
from tests.bench.made_up import facts


def row(outcome: str, loaded: bool = False, purposes: tuple[str, ...] = ("search",)) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "loaded": loaded,
        "reason": "-",
        "seconds": 20.0,
        "budget": 20.0,
        "trials": [{"purpose": purpose, "log_ratios": [0.01]} for purpose in purposes],
    }


def test_the_summary_counts() -> None:
    rows = [row("no-gain")] * 57 + [
        row("no-gain", loaded=True),
        row("no-gain", purposes=("search", "confirm")),
    ]
    assert summary([*rows, row("Refusal")]) == (
        "0 gains claimed in 59 tunes, 1 of them under load; 1 came as far as a confirmation; "
        "1 more were refused or failed. That excludes, with 95% confidence, a share of false gains above 5.0%"
    )
    assert summary([row("gain"), row("no-gain")]).startswith("1 gains claimed in 2 tunes")
    longer = {**row("no-gain"), "budget": 80.0}
    assert "; 1 times a budget of 20 s was refused as too short, and up to 80 s were given. That" in summary(
        [row("no-gain"), longer]
    )


def test_a_tune_that_compared_nothing_is_no_evidence() -> None:
    failed = {**row("no-gain"), "trials": [{"purpose": "search", "log_ratios": []}]}
    said = summary([row("no-gain"), failed, row("no-gain", purposes=())])
    assert said.startswith("0 gains claimed in 1 tunes")
    assert "; 2 compared nothing, and do not count" in said


def test_a_file_is_filled_up_to_the_number_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    asked: list[int] = []

    def paper_tune(number: int, budget: float, kind: str) -> dict[str, Any]:
        asked.append(number)
        return row("no-gain")

    monkeypatch.setattr(false_wins, "one_tune", paper_tune)
    for tunes in ("2", "3", "3"):
        monkeypatch.setattr("sys.argv", ["false_wins", "--tunes", tunes, "--file", str(path)])
        false_wins.main()
    assert asked == [0, 1, 2]
    assert rows_of(path) == [row("no-gain")] * 3


def test_a_budget_that_is_refused_is_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def paper_tune(number: int, budget: float, kind: str) -> dict[str, Any]:
        asked.append(budget)
        return row("Refusal" if budget < 70 else "no-gain")

    monkeypatch.setattr(false_wins, "one_tune", paper_tune)
    assert answered_tune(0, 20.0, "idle")["outcome"] == "no-gain"
    assert asked == [20.0, 40.0, 80.0]
    assert answered_tune(0, 1.0, "idle")["outcome"] == "Refusal"


def test_a_line_cut_off_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row("gain")) + '\n{"outcome": "no-')
    with pytest.raises(json.JSONDecodeError):
        rows_of(path)


@pytest.mark.parametrize(("kind", "least"), [("idle", 1), ("disturbed", 1), ("catalogue", 25)])
def test_the_catalogue_is_put_back(kind: str, least: int) -> None:
    before, bootstrap = dict(CATALOG), one_process.BOOTSTRAP
    with nothing_in_force(kind):
        assert len(CATALOG) >= least
        assert all(found is not before.get(name) for name, found in CATALOG.items())
        assert bootstrap != one_process.BOOTSTRAP
    assert before == CATALOG
    assert bootstrap == one_process.BOOTSTRAP


def test_every_technique_of_the_idle_catalogue_is_asked_as_the_real_one_and_does_nothing() -> None:
    real, machine = dict(CATALOG), this_machine()
    for name, idle in idle_catalogue().items():
        asked = facts()
        assert idle.refuse(asked) == real[name].refuse(asked)
        assert [*idle.options(asked)] == [*real[name].options(asked)]
        for settings in real[name].options(asked):
            assert idle.environment(settings, machine) == {}
            assert idle.excludes(settings, "bf16", {}) == real[name].excludes(settings, "bf16", {})
