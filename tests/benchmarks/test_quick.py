"""What the quick benchmark makes of stored lines; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import quick
from benchmarks.quick import Part, differences, measure, of_the_same

from hasten.machine import this_machine
from hasten.records.trial import Ratio


def ratio(value: float, by: float = 0.01) -> Ratio:
    return Ratio(value, value - by, value + by, 5, "processes")


def row(value: float | None, commit: str = "abc1234", **where: str) -> dict[str, Any]:
    then = {"value": value, "low": value - 0.01, "high": value + 0.01} if value is not None else None
    return {"commit": commit, "began": "2026-01-02", "summary": {"watching": then}, **where}


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        (1.2, 1.0, "1.200 (1.178 to 1.222) times that of abc1234, 2026-01-02: higher"),
        (0.5, 1.0, "0.500 (0.485 to 0.515) times that of abc1234, 2026-01-02: lower"),
        (1.01, 1.0, "1.010 (0.990 to 1.030) times that of abc1234, 2026-01-02: no difference to be seen"),
    ],
)
def test_a_difference_is_said_where_intervals_lie_apart(now: float, then: float, said: str) -> None:
    assert differences("watching", ratio(now), [row(then)]) == [said]


def test_what_gave_no_number_is_not_compared() -> None:
    (of_now,) = differences("watching", None, [row(1.0)])
    (of_then,) = differences("watching", ratio(1.0), [row(None)])
    assert "now it gave no number" in of_now
    assert "then it gave no number" in of_then


def test_a_part_that_gave_no_number_fails_the_benchmark_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the others found is kept."""
    file = tmp_path / "quick.jsonl"
    found = {"watching": Part("well", ratio(1.0), None), "tune": Part("no gain", None, None)}
    monkeypatch.setattr(quick, "PARTS", {name: lambda part=part: part for name, part in found.items()})
    with pytest.raises(SystemExit, match=r"^no number came of: tune$"):
        measure(file)
    (written,) = map(json.loads, file.read_text().splitlines())
    assert written["summary"] == {"watching": {"value": 1.0, "low": 0.99, "high": 1.01}, "tune": None}


def test_only_the_last_lines_of_the_same_machine_and_torch_count_the_newest_first() -> None:
    here, elsewhere = (
        {"machine": "an abacus", "torch": "2.13.0"},
        {"machine": "a slide rule", "torch": "2.13.0"},
    )
    older_torch = {"machine": "an abacus", "torch": "2.9.0"}
    rows = [row(1.0, commit, **here) for commit in "abcde"]
    rows += [row(1.0, "f", **elsewhere), row(1.0, "g", **older_torch)]
    assert [found["commit"] for found in of_the_same(rows, here)] == ["e", "d", "c"]
    assert of_the_same(rows, {"machine": "a pen", "torch": "2.13.0"}) == []


def test_the_second_run_is_held_against_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, said = tmp_path / "quick.jsonl", []
    for value in (1.0, 1.5):
        found = Part("a part", ratio(value), {"raw": [value]})
        monkeypatch.setattr(quick, "PARTS", {"watching": lambda found=found: found})
        measure(file)
        said.append(capsys.readouterr().out)
    here = this_machine().identity
    assert said[0].startswith(f"nothing to compare with: quick.jsonl has no line of {here}")
    assert said[1].startswith("watching: a part\n  1.500 (")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [written["summary"]["watching"]["value"] for written in rows] == [1.0, 1.5]
    assert [written["raw"]["watching"] for written in rows] == [{"raw": [1.0]}, {"raw": [1.5]}]
