"""What the benchmark says of plans that were found while other programs ran, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks import disturbed

from hasten.records.plan import Plan
from hasten.records.trial import Ratio
from hasten.scripts.workspace import find_script

GOOD: dict[str, Any] = {"bf16": {}, "malloc": {}}
POOR: dict[str, Any] = {"malloc": {}}
NONE: dict[str, Any] = {}


@contextmanager
def nobody(seed: int) -> Iterator[None]:
    yield


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *plans: dict[str, Any], times: float | None = None
) -> list[dict[str, Any]]:
    """The rows of a benchmark whose tunes find these plans, that on the quiet machine first. ``times``: what
    the others take of its time, None if that cannot be measured.
    """
    found = iter(plans)

    def tuned(*_: object) -> dict[str, Any]:
        plan = next(found)
        return {"outcome": "gain" if plan else "no-gain", "reason": "so", "plan": plan, "seconds": 1.0}

    def compared(script: object, quiet: Plan, noisy: Plan) -> Compared | None:
        return None if quiet == noisy else Compared(times)

    monkeypatch.setattr(disturbed, "tuned", tuned)
    monkeypatch.setattr(disturbed, "compared", compared)
    monkeypatch.setattr(disturbed, "disturber", nobody)
    monkeypatch.setattr(disturbed, "FILE", tmp_path / "rows.jsonl")
    monkeypatch.setattr(sys, "argv", ["disturbed", "bn_cnn", "--tunes", str(len(plans) - 1)])
    disturbed.main()
    return [json.loads(line) for line in disturbed.FILE.read_text().splitlines()]


def test_equal_plans_are_worth_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run(tmp_path, monkeypatch, GOOD, GOOD, GOOD)
    assert [row["of_quiet"] for row in rows] == [1.0, 1.0]


def test_where_a_quiet_machine_finds_nothing_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two tunes that find nothing would be worth the same."""
    with pytest.raises(SystemExit, match="bn_cnn: nothing was found on the quiet machine: so"):
        run(tmp_path, monkeypatch, NONE, NONE)


class Compared:
    """What comparing two plans came to."""

    log_ratios = ()

    def __init__(self, times: float | None) -> None:
        self.ratio = Ratio(times, times, times, 10, "pairs") if times is not None else None


@pytest.mark.parametrize("times", [1.1, None])
def test_a_plan_that_is_worth_less_or_not_measured_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: float | None
) -> None:
    with pytest.raises(SystemExit, match="not all of them are"):
        run(tmp_path, monkeypatch, GOOD, POOR, times=times)


def test_a_tune_is_told_our_options_before_the_script_and_its_own_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 1, "", "so")

    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    monkeypatch.setattr(subprocess, "run", run)
    row = disturbed.tuned(find_script("train.py", ["small"]), 20.0, 3, ["--only", "bf16"])
    assert (row["outcome"], row["reason"]) == ("failed", "so")
    assert ran[0][-4:] == ["--only", "bf16", "train.py", "small"]
