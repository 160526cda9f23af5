"""What a search measures, in which order, and what it does not measure again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import search, search_rows
from benchmarks.search import EVERY, PAIRS, SCRIPTS, in_any_order, left_of, watched, with_end
from benchmarks.search_rows import Searched
from benchmarks.search_space import TECHNIQUES, plans_of, to_json

from hasten.bench.comparing.pairs import MeasureFailed
from hasten.plans import unconfirmed
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from hasten.scripts.workspace import Workspace, find_script
from tests.bench.made_up import facts, trial

Row = dict[str, Any]
AXES = {name: [BASELINE, Plan({name: {}})] for name in ("malloc", "bf16")}
BF16, BOTH = Plan({"bf16": {}}), Plan({"malloc": {}, "bf16": {}})


class PaperBench:
    """In place of PairsBench: bf16 halves the time; the plan with both cannot be timed where it ``fails``."""

    def __init__(self, fails: bool = False) -> None:
        self.alone: list[Plan] = []
        self.compared: list[tuple[Plan, Plan, int]] = []
        self.fails = fails

    def singles(self, plans: Sequence[Plan]) -> list[float]:
        (plan,) = plans
        self.alone.append(plan)
        if self.fails and plan == BOTH:
            raise MeasureFailed("it did not apply")
        return [2e-3 * (0.5 if "bf16" in plan.techniques else 1.0)]

    def compare(self, a: Plan, b: Plan, pairs: int) -> Trial:
        self.compared.append((a, b, pairs))
        return trial([1.01, 1.02], b, a)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PaperBench:
    """A search on paper: tunes find bf16 in a second, and nobody asks Optuna."""
    made = PaperBench()

    @contextmanager
    def begun(name: str) -> Iterator[tuple[PaperBench, Facts]]:
        yield made, facts()

    def tuned(*asked: Any) -> Row:
        assert asked[1:] == (33.0, 0, [word for name in TECHNIQUES for word in ("--only", name)])
        return {"outcome": "gain", "reason": "so", "plan": BF16.to_json(), "seconds": 1.0}

    monkeypatch.setattr(search, "begun", begun)
    monkeypatch.setattr(search, "tuned", tuned)
    monkeypatch.setattr(search, "space_for", lambda _, whole: AXES)
    monkeypatch.setattr(search, "optuna", lambda: pytest)  # anything that tells its version
    monkeypatch.setattr(search, "optuna_curves", lambda table, axes: [[(0.0, 1.0), (50.0, 0.5)]])
    monkeypatch.setattr(search, "FILE", tmp_path / "search.jsonl")
    monkeypatch.setattr(search_rows, "source_commit", lambda: "abc")
    return made


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[Row]:
    """The rows of the file after a call, which fails: paper is too fast for a tune to be a tenth of it."""
    path = search.FILE
    options = ["--budget", "33", "--file", str(path), *words]
    monkeypatch.setattr(sys, "argv", ["search", "bn_cnn", *options])
    with pytest.raises(SystemExit, match="bn_cnn"):
        search.main()
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kinds(rows: Sequence[Row]) -> list[str]:
    return [row["kind"] for row in rows]


def test_it_tunes_times_every_plan_and_compares_what_was_found(
    bench: PaperBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run(monkeypatch, "--rounds", "1")
    assert kinds(rows) == ["tune", "space", *["timed"] * 4, *["duel"] * 3, "optuna"]
    assert bench.alone[0] == BASELINE
    assert set(bench.alone) == set(plans_of(AXES))
    assert [found for _, found, _ in bench.compared] == [BF16] * 3
    assert {best for best, _, _ in bench.compared} == set(plans_of(AXES)) - {BF16}
    assert {pairs for _, _, pairs in bench.compared} == {PAIRS}
    assert {"machine", "torch", "commit", "ended"} <= set(rows[0])


def test_what_is_there_is_not_measured_again(bench: PaperBench, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run(monkeypatch, "--rounds", "1")
    assert run(monkeypatch, "--rounds", "1") == rows
    more = run(monkeypatch, "--rounds", "2")[len(rows) :]
    assert kinds(more) == [*["timed"] * 3, "optuna"]
    later = [Plan.from_json(row["plan"]) for row in more[:-1]]
    assert later[0] == BASELINE
    assert set(later[1:]) == {BF16, BOTH}  # malloc alone was far from the best
    monkeypatch.setattr(search_rows, "source_commit", lambda: "another")
    assert kinds(run(monkeypatch, "--rounds", "1")[len(rows) + len(more) :]) == kinds(rows)


def test_it_goes_on_in_mid_round(bench: PaperBench, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(monkeypatch, "--rounds", "1")
    kept = whole[:4]  # the tune, the space and two processes
    search.FILE.write_text("".join(json.dumps(row) + "\n" for row in kept))
    again = run(monkeypatch, "--rounds", "1")
    assert [row.get("plan") for row in again] == [row.get("plan") for row in whole]


def test_when_its_time_is_over_it_begins_nothing(bench: PaperBench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "--seconds", "0") == []
    assert bench.alone == []


def test_a_plan_that_cannot_be_timed_is_a_row_that_says_why(
    bench: PaperBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fails = True
    rows = run(monkeypatch, "--rounds", "2")
    (failed,) = (row for row in rows if row["kind"] == "timed" and row["failure"])
    assert (failed["plan"], failed["sample_seconds"]) == (BOTH.to_json(), None)
    assert failed["failure"] == "it did not apply"


def test_where_runs_are_timed_a_row_tells_the_seconds_of_a_run(
    bench: PaperBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCRIPTS, "bn_cnn", replace(SCRIPTS["bn_cnn"], whole=True))
    monkeypatch.setattr(search, "EVALUATION", ())  # the paper's tune expects no more techniques
    rows = run(monkeypatch, "--rounds", "1")
    timed = {Plan.from_json(row["plan"]): row for row in rows if row["kind"] == "timed"}
    assert (timed[BASELINE]["run_seconds"], timed[BF16]["run_seconds"]) == (2e-3, 1e-3)
    assert not any("sample_seconds" in row for row in timed.values())
    assert Searched(rows).time(BF16) == 0.5


def test_tunes_of_whole_runs_try_what_is_done_to_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def tuned(script: Any, budget: float, seed: int, only: Sequence[str]) -> Row:
        asked.append([word for word in only if word != "--only"])
        return {"plan": {}, "seconds": 1.0}

    monkeypatch.setattr(search, "tuned", tuned)
    for name in ("long_evaluation", "whole_evaluation"):
        search.one_tune(name, 0, 60.0)
    assert asked == [[*TECHNIQUES], [*TECHNIQUES, "evaluation_in_ram", "evaluation_bf16"]]


def test_a_tune_that_fails_ends_it(bench: PaperBench, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"outcome": "failed", "reason": "too short", "plan": {}, "seconds": 1.0}
    monkeypatch.setattr(search, "tuned", lambda *_: failed)
    monkeypatch.setattr(sys, "argv", ["search", "bn_cnn", "--file", str(search.FILE)])
    with pytest.raises(SystemExit, match="bn_cnn: the tune failed: too short"):
        search.main()
    assert not search.FILE.exists()


def test_before_every_fourth_plan_comes_the_baseline() -> None:
    axes = {name: [BASELINE, Plan({name: {}})] for name in ("malloc", "bf16", "channels_last", "fp16")}
    space: Row = {"kind": "space", "axes": to_json(axes)}
    order = left_of(0, Searched([space]))
    assert [place for place, plan in enumerate(order) if plan == BASELINE] == [0, 5, 10, 15]
    assert len(set(order)) == 16
    done = [{"kind": "timed", "round": 0, "plan": plan.to_json()} for plan in order[:7]]
    assert left_of(0, Searched([space, *done])) == order[7:]
    assert EVERY == 4


def test_the_order_differs_by_round_and_is_the_same_each_time() -> None:
    plans = [Plan({"threads": {"count": n}}) for n in range(20)]
    assert in_any_order(plans, 0) == in_any_order(plans, 0) != in_any_order(plans, 1)
    assert set(in_any_order(plans, 1)) == set(plans)


def test_each_script_is_there() -> None:
    assert all(asked.script.is_file() for asked in SCRIPTS.values())


# ---- what a tune has found so far
def wait_for(seen: Sequence[object], count: int) -> None:
    ends = time.monotonic() + 60
    while len(seen) < count:
        assert time.monotonic() < ends, "nobody looked"
        time.sleep(0.01)


def test_the_plan_on_disk_is_seen_whenever_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    workspace = Workspace(find_script("train.py", []))
    with watched(workspace) as seen:
        for number, plan in enumerate([BF16, BOTH, BASELINE], 2):
            unconfirmed.keep(workspace, plan, {})
            wait_for(seen, number)
    assert [plan for _, plan in seen] == [BASELINE, BF16, BOTH, BASELINE]
    assert [seconds for seconds, _ in seen] == sorted(seconds for seconds, _ in seen)


def test_at_the_end_it_has_the_plan_that_was_written() -> None:
    seen = [(0.0, BASELINE), (3.0, BF16), (9.5, BASELINE)]  # the last as the tune ends
    assert with_end(seen, 10.0, BOTH) == [*seen[:2], (10.0, BOTH)]
    assert with_end(seen[:1], 10.0, BASELINE) == [(0.0, BASELINE), (10.0, BASELINE)]


# ---- by what rows are kept
def test_what_changed_the_source_last_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"log": "1a2b3c4", "status": ""}
    monkeypatch.setattr(search_rows, "_git", lambda verb, *_: said[verb])
    assert search_rows.source_commit() == "1a2b3c4"
    said["status"] = " M src/hasten/errors.py"
    assert search_rows.source_commit() == "1a2b3c4+"
    said["log"] = ""
    assert search_rows.source_commit() == ""
