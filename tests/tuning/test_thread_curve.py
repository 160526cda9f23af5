"""The curve of time against threads: which points, from which comparisons, and what time is left for."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.records.curve import ThreadCurve
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.records.trial import Ratio, Trial
from hasten.tuning.deadline import Deadline
from hasten.tuning.thread_curve import (
    complete,
    counts,
    curve_of,
)
from tests.bench.made_up import facts, machine, root
from tests.machine.topologies import recorded

BF16 = Plan({"bf16": {}})
WHY = Reason("failed", failure="a reason")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("one-core", [1]),
        ("one-core-2-threads", [1, 2]),
        ("wsl2", [1, 2, 4, 8, 10, 20]),
        ("container-2.5-of-64", [1, 2]),
        ("epyc-8-nodes", [1, 2, 4, 8, 16, 32, 64, 128, 256]),
    ],
)
def test_which_numbers_make_a_curve(where: str, expected: list[int]) -> None:
    assert counts(recorded(where)) == expected


def test_hardware_threads_beyond_the_quota_are_none_of_it() -> None:
    assert counts(machine(logical_cpus=8, physical_cores=4, quota_cpus=6.0)) == [1, 2, 4]


def row(count: int, ratio: float | None, against: Plan = BF16, **more: Any) -> Tried:
    measured = None if ratio is None else Ratio(ratio, ratio - 0.1, ratio + 0.1, 4, "pairs")
    return Tried("threads", {"count": count}, measured, against, False, WHY, "pairs", **more)


def eight_cores(threads: int = 8) -> Facts:
    return facts({"logical_cpus": 16, "physical_cores": 8}, threads=threads)


def drawn(curve: ThreadCurve | None) -> list[tuple[int, float | None]]:
    assert curve is not None
    return [(point.threads, point.ratio.value if point.ratio else None) for point in curve.points]


def test_the_searchs_comparisons_are_points_and_the_usual_number_is_one() -> None:
    tried = [
        Tried("bf16", {}, None, BASELINE, True, Reason("gain"), "live"),
        row(4, 1.2, against_seconds=0.02),
        row(1, 3.0, against_seconds=0.03),
    ]
    curve = curve_of(eight_cores(), tried, BF16)
    assert drawn(curve) == [(1, 3.0), (2, None), (4, 1.2), (8, 1.0), (16, None)]
    assert curve is not None
    assert (curve.usual, curve.together_with, curve.usual_seconds) == (8, BF16, 0.025)
    assert [point.threads for point in curve.points if point.hyperthreads] == [16]
    assert {point.failed for point in curve.missing} == {None}


def test_what_was_measured_with_another_plan_is_no_point_of_it() -> None:
    kept = BF16.adding("threads", {"count": 4})
    tried = [row(4, 0.9), row(2, 1.5), row(4, 0.7, BASELINE), row(4, 0.8, ablation=True), row(4, None, kept)]
    assert drawn(curve_of(eight_cores(), tried, kept)) == [
        (1, None),
        (2, 1.5),
        (4, 0.9),
        (8, 1.0),
        (16, None),
    ]


def test_a_number_that_failed_says_why() -> None:
    curve = curve_of(eight_cores(), [row(4, 1.2), row(2, None)], BF16)
    assert curve is not None
    assert [(point.threads, point.failed) for point in curve.missing] == [
        *((1, None), (2, WHY), (16, None)),
    ]


def test_without_a_comparison_of_the_search_it_is_drawn_with_what_was_kept() -> None:
    kept = (
        BF16.adding("threads", {"count": 4})
        .adding("affinity", {"bind": "cores"})
        .adding("processes", {"count": 2})
    )
    curve = curve_of(eight_cores(), [], kept)
    assert curve is not None
    assert (curve.together_with, drawn(curve)) == (
        BF16,
        [(1, None), (2, None), (4, None), (8, 1.0), (16, None)],
    )


@pytest.mark.parametrize(
    "where",
    [
        facts({"environment": {"OMP_NUM_THREADS": "2"}}),
        facts(roots=(root(devices=("cuda:0",)),)),
        facts({"logical_cpus": 1, "physical_cores": 1}, threads=1),
    ],
    ids=["set by the user", "on a GPU", "one core"],
)
def test_there_is_none_where_the_number_is_not_ours_to_choose(where: Facts) -> None:
    assert curve_of(where, [row(1, 2.0)], BASELINE) is None


class Timed(ScriptedBench):
    """A comparison takes ``takes`` seconds on the clock."""

    def __init__(self, takes: float, failures: dict[str, str] | None = None) -> None:
        super().__init__({"threads": 1.5}, failures)
        self.takes, self.now = takes, 0.0

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self.now += self.takes
        return super().compare(a, b, seconds)


def completed(bench: Timed, left: float, seconds: float = 1.0) -> ThreadCurve:
    curve = curve_of(eight_cores(), [row(4, 1.2)], BF16)
    assert curve is not None
    announced: list[str] = []
    found = complete(
        curve, bench, Deadline(left, lambda: bench.now), seconds, lambda name, plan: announced.append(name)
    )
    assert announced == ["threads"] * len(bench.asked)
    return found


def asked(bench: Timed) -> list[object]:
    assert all(a == BF16 and b.without("threads") == BF16 for a, b in bench.asked)
    return [b.techniques["threads"]["count"] for _, b in bench.asked]


def test_missing_points_are_measured_those_near_the_usual_number_first() -> None:
    bench = Timed(takes=1.0)
    found = completed(bench, left=100.0)
    assert asked(bench) == [16, 2, 1]
    assert found.missing == []
    assert [threads for threads, _ in drawn(found)] == [1, 2, 4, 8, 16]
    assert dict(drawn(found))[2] == pytest.approx(1.5, rel=1e-3)
    assert found.usual_seconds == pytest.approx(0.02)


def test_what_the_budget_does_not_allow_stays_missing() -> None:
    bench = Timed(takes=5.0)
    found = completed(bench, left=11.0)
    assert asked(bench) == [16, 2]  # a third would not fit, by what the others took
    assert [(point.threads, point.failed) for point in found.missing] == [(1, None)]
    assert len(completed(Timed(takes=5.0), left=11.0, seconds=20.0).missing) == 3


def test_a_comparison_that_fails_is_a_point_that_is_missing() -> None:
    found = completed(Timed(takes=1.0, failures={"threads": "it hung"}), left=100.0)
    assert {point.failed for point in found.missing} == {Reason("failed", failure="it hung")}
