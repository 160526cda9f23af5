"""Counting the guard's alarms; no training is run here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import guard_alarms, guard_page
from benchmarks.guard_alarms import HARMLESS_AT_ONCE, PLANS, Case, cases_left, plan_for, precision_of_fault
from benchmarks.guard_rows import alarms, checks_in, judged_anew, raw, summary, upper_bound

from hasten.bench.guard.checked_steps import Check, Watched
from hasten.bench.guard.judging import verdict_on
from hasten.records.trace import Mode, StepTrace
from hasten.report.machine_readable import guard_json
from tests.bench.faulty_techniques import FAULTS, PLANTED, SLIGHT
from tests.techniques.made_up import facts

FAULT_CASES = sum(len(names) for names in PLANTED.values())


def watched(noise: float = 0.0, loss: float = 0.0, scale: float = 1.0) -> Watched:
    """A training of 30 steps whose gradient is ``scale`` times what it should be, with noise."""
    trace = [
        StepTrace(
            batches=(f"batch {n}",),
            modes=(Mode(True),),
            rates=((0.1,),),
            streams=f"stream {n}",
            losses=(1.0 + loss * (-1) ** n,),
        )
        for n in range(30)
    ]
    gradient = [4.0, 4.0 * scale, 4.0 * ((scale - 1) ** 2 + noise**2)]
    checks = [
        Check(step, {"a": gradient, "b": gradient}, {"a": [1.0, 1.0, 0.0], "b": [1.0, 1.0, 0.0]})
        for step in (1, 2, 20)
    ]
    return Watched(trace, checks)


def row(candidate: Watched, kind: str = "harmless", plan: str = "bf16", **more: Any) -> dict[str, Any]:
    trainings = (watched(), watched(noise=1e-2, loss=1e-2), candidate)
    verdict = verdict_on(*trainings, False, "bfloat16")
    return {
        **{"kind": kind, "script": "one", "plan": plan, "seed": 0, "draws": False, "precision": "bfloat16"},
        "outcome": "passed" if verdict.passed else "stopped",
        **guard_json(verdict),
        "raw": {
            name: raw(one)
            for name, one in zip(("reference", "perturbed", "candidate"), trainings, strict=True)
        },
        "seconds": 4.0,
        "began": "2027-01-01T00:00:00+00:00",
        **more,
    }


FINE = watched(noise=2e-2, loss=5e-3)
SCALED = watched(scale=1.05)
CURVED = watched(loss=0.1)


def test_a_verdict_can_be_had_again_from_what_is_kept() -> None:
    for candidate in (FINE, SCALED, CURVED, Watched((), [])):
        kept = json.loads(json.dumps(row(candidate)))
        again = judged_anew(kept, "now")
        assert again["outcome"] == kept["outcome"]
        assert again["numerics"]["held"] == kept["numerics"]["held"]
        assert again["reasons"] == kept["reasons"] or not candidate.trace


def test_another_verdict_follows_from_other_tolerances(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = row(watched(noise=5e-2))
    assert kept["outcome"] == "passed"
    monkeypatch.setattr("hasten.bench.guard.single_steps.ROUNDING_TIMES", 1.0)
    again = judged_anew(kept, "now")
    assert again["outcome"] == "stopped"
    assert again["reasons"][0].startswith("the gradient differs")
    unwatched = {**kept, "raw": {**kept["raw"], "candidate": {"failed": "no room"}}}
    assert judged_anew(unwatched, "now") == unwatched


def test_what_is_no_number_is_kept() -> None:
    broken = watched()
    broken.checks[1] = Check(2, {"a": [1.0, math.nan, math.inf]}, counts=("step of a",))
    kept = json.loads(json.dumps({"raw": {"candidate": raw(broken)}}, allow_nan=False))
    _, check, _ = checks_in(kept, "candidate")
    assert math.isnan(check.gradient["a"][1])
    assert math.isinf(check.gradient["a"][2])
    assert check.counts == ["step of a"]


def test_each_alarm_is_its_part_s() -> None:
    assert alarms(row(FINE)) == []
    assert alarms(row(SCALED)) == ["numerics"]
    assert alarms(row(CURVED)) == ["loss curve"]
    usual = watched()
    before, changed, *after = usual.trace
    late = Watched([before, replace(changed, rates=((0.2,),)), *after], usual.checks)
    assert alarms(row(late)) == ["invariants"]


def test_the_summary_counts() -> None:
    rows = [row(FINE)] * 8 + [row(SCALED), row(CURVED)] + [row(SCALED, "fault", "gradients_scaled")] * 3
    rows.append({"kind": "harmless", "outcome": "not applicable", "reasons": ["no convolutions"]})
    assert summary(rows).splitlines() == [
        "2 alarms in 10 harmless runs, at most 50.7% with 95% confidence; "
        "1 more cases in which the plan does not apply are not counted",
        "  invariants: 0",
        "  numerics: 1",
        "  loss curve: 1",
        "3 of 3 planted faults caught",
        "4.0 s a run",
    ]


@pytest.mark.parametrize(
    ("count", "of", "bound"), [(0, 200, 1 - 0.05 ** (1 / 200)), (2, 200, 0.0311), (10, 10, 1.0), (0, 0, 1.0)]
)
def test_the_bound_is_exact(count: int, of: int, bound: float) -> None:
    """Against published tables of the binomial distribution's limits."""
    assert upper_bound(count, of) == pytest.approx(bound, abs=5e-5)


def run_paper(
    rows: list[dict[str, Any]], harmless: int, seeds: int, refused: Sequence[str] = ()
) -> list[Case]:
    run = []
    for case in cases_left(rows, harmless, seeds):
        run.append(case)
        outcome = "not applicable" if case.plan in refused else "passed"
        keys = {"kind": case.kind, "script": case.script, "plan": case.plan, "seed": case.seed}
        rows.append({**keys, "outcome": outcome})
    return run


def test_faults_come_between_harmless_runs_and_all_come_once() -> None:
    rows: list[dict[str, Any]] = []
    run = run_paper(rows, 200, 2)
    assert len(run) == len(set(run))
    assert [case.kind for case in run[: HARMLESS_AT_ONCE + 1]] == ["harmless"] * HARMLESS_AT_ONCE + ["fault"]
    assert sum(case.kind == "fault" for case in run) == 2 * FAULT_CASES
    assert 0 <= sum(case.kind == "harmless" for case in run) - 200 < HARMLESS_AT_ONCE
    assert {case.plan for case in run if case.kind == "harmless"} == set(PLANS)


def test_each_fault_is_held_against_the_rounding_of_both_precisions() -> None:
    run = [case for case in run_paper([], 1, 4) if case.plan == "labels_shifted"]
    assert sorted(map(precision_of_fault, run)) == ["bfloat16"] * 2 + ["float32"] * 2


def test_what_was_begun_is_gone_on_with() -> None:
    rows: list[dict[str, Any]] = []
    first = run_paper(rows, 20, 1)
    assert run_paper(rows, 20, 1) == []
    assert not set(run_paper(rows, 30, 2)) & set(first)


def test_plans_that_do_not_apply_are_not_counted() -> None:
    rows: list[dict[str, Any]] = []
    run_paper(rows, 50, 0, refused=("channels_last",))
    assert sum(row["outcome"] == "passed" for row in rows) >= 50
    assert any(row["outcome"] == "not applicable" for row in rows)


def test_plans_are_of_what_applies() -> None:
    seen = facts()
    assert plan_for("idle", seen)[0].techniques.keys() == {"idle"}
    for name in PLANS[:-1]:
        plan, why_not = plan_for(name, seen)
        assert bool(plan) != bool(why_not)


def test_every_planted_fault_exists() -> None:
    assert {name for names in PLANTED.values() for name in names} == set(FAULTS) - {SLIGHT}


# ---- the page
def test_the_share_of_a_tolerance_in_use() -> None:
    kept = row(watched(noise=0.04, loss=0.02))
    assert guard_page.used(kept, "numerics") == pytest.approx(0.5, rel=1e-3)
    assert guard_page.used(kept, "loss curve") == pytest.approx(0.5, rel=1e-2)
    assert guard_page.used(row(SCALED), "numerics") > 1
    counted = row(FINE)
    counted["numerics"]["counts"] = {"2": ["step of a"]}
    assert guard_page.used(counted, "numerics") == math.inf


def test_the_page_is_written_and_the_plot_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [row(FINE), row(SCALED, plan="fused_optimizer"), row(SCALED, "fault", "gradients_scaled")]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    monkeypatch.setattr(guard_page, "FILE", path)
    drawn: list[int] = []
    monkeypatch.setattr(guard_page, "draw", lambda harmless, faults, *_: drawn.append(len(harmless)))
    text = guard_page.guard_words(None, lambda figure, name: None)
    assert drawn == [2]
    assert "1 alarms in 2 harmless runs" in text
    assert "Of the 2 begun since, 1 were stopped." in text
    assert "- one under fused_optimizer: the gradient is 1.050 times" in text
    assert "| numerics | 1 of 2 | 97.5% | 1 of 1 |" in text
    assert "| gradients scaled | one | - | 0 of 1 | - | 1 of 1 | - | 0 of 1 | 1 of 1 |" in text
    assert "3.50 times as far as the perturbed baseline's (median; 2.00 to 5.00)" in text


def test_the_newest_comparison_of_noises_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_page, "FOLDER", tmp_path)
    for day, moved in (("2026-01-01", 0.5), ("2026-01-02", 0.1)):
        rows = [
            {"model": "MLP", "bfloat16": moved * n, "every layer": 0.1, "output alone": 0.01} for n in (1, 2)
        ]
        (tmp_path / f"{day}-rounding.json").write_text(json.dumps({"rows": rows}))
    assert "| MLP | 10.0% to 20.0% | 1.00 to 2.00 | 10.00 to 20.00 |" in guard_page.rounding_table()


def test_without_runs_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_page, "FILE", tmp_path / "none.jsonl")
    assert guard_page.guard_words(None, lambda figure, name: None) == "None has been run yet."
    assert guard_alarms.FILE.name == "guard_alarms.jsonl"
