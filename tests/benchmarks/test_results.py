"""What a benchmark says of the machine it ran on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import results

THEN = {
    "machine": "an abacus",
    "torch": "2.13.0",
    "summary": {"speedup": {"value": 2.3, "low": 2.1, "high": 2.5}},
}


def now(**changes: Any) -> dict[str, Any]:
    return {**THEN, **changes}


def interval(low: float, high: float) -> dict[str, Any]:
    return {"speedup": {"value": (low + high) / 2, "low": low, "high": high}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing differs"),
        (
            {"machine": "a slide rule"},
            "this machine differs from that of the documents: a slide rule, where they",
        ),
        (
            {"torch": "2.14.0"},
            "this torch differs from that of the documents: 2.14.0, where they have 2.13.0",
        ),
        ({"summary": interval(2.4, 2.6)}, "nothing differs"),
        (
            {"summary": interval(1.0, 1.2)},
            "speedup differs here: 1 to 1.2, where the documents have 2.1 to 2.5",
        ),
        ({"summary": interval(3.0, 3.3)}, "speedup differs here: 3 to 3.3"),
        ({"summary": {"other": {"low": 9, "high": 9}}}, "nothing differs"),
        ({"summary": None}, "nothing differs"),
    ],
)
def test_what_differs_is_said(changes: dict[str, Any], said: str) -> None:
    (line,) = results.differences(THEN, now(**changes))
    assert line.startswith(said)


def test_intervals_are_found_wherever_they_lie_in_a_summary() -> None:
    deep = {"case": {"a": {"low": 1, "high": 2}, "b": 3}}
    far = {"case": {"a": {"low": 5, "high": 6}, "b": 3}}
    (line,) = results.differences(now(summary=deep), now(summary=far))
    assert line.startswith("case.a differs here")


def test_a_result_is_held_against_the_last_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    (tmp_path / "2026-01-01-startup.json").write_text(json.dumps(now(machine="older")))
    (tmp_path / "2026-01-02-startup.json").write_text(json.dumps(THEN))
    (tmp_path / "2026-01-03-other-startup.json").write_text(json.dumps(now(machine="of another name")))
    results.write_result("startup", {"summary": THEN["summary"]})
    told = capsys.readouterr().out
    assert "where they have an abacus" in told
    assert "older" not in told
