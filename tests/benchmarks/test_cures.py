"""What the benchmark says of a tune: whether it found what the script needs, and nothing that it does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import cures


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"gc_control": {}, "malloc": {}}, "cured"),
        ({"malloc": {}}, "not cured"),
        ({}, "not cured"),
        ({"gc_control": {}, "merge_groups": {}}, "claims merge_groups"),
    ],
)
def test_a_plan_is_judged_by_what_the_script_is_slow_for(plan: dict[str, Any], said: str) -> None:
    assert cures.judged("many_objects", {"plan": plan}) == said


def test_each_script_is_there() -> None:
    assert all((cures.WORKLOADS / f"{name}.py").is_file() for name in cures.CURES)


def test_it_fails_where_one_is_not_cured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {"outcome": "no-gain", "reason": "so", "plan": {}, "seconds": 1.0}
    monkeypatch.setattr(cures, "tune", lambda name, budget: found)
    monkeypatch.setattr(cures, "FILE", tmp_path / "rows.jsonl")
    monkeypatch.setattr(sys, "argv", ["cures", "many_groups"])
    with pytest.raises(SystemExit, match="many_groups"):
        cures.main()
    (row,) = map(json.loads, cures.FILE.read_text().splitlines())
    assert (row["script"], row["judged"], row["reason"]) == ("many_groups", "not cured", "so")
