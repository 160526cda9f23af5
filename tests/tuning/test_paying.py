"""What costs more than the script has steps to earn back is in no plan, wherever the length was told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from hasten.report.reasons import reason_words
from hasten.report.words import technique_words
from hasten.tuning.candidate import Candidate
from hasten.tuning.paying import ScriptLength
from hasten.tuning.search import Search
from tests.bench.made_up import candidate, technique, trial
from tests.tuning.searches import search_over


class WithSetUp(ScriptedBench):
    """Steps take 20 ms without what each technique gains, and ``set_up`` seconds are paid by any plan with
    it; the script's end is seen in the comparison of that number.
    """

    set_up: dict[str, float]
    ends_in: int | None = None

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        found = super().compare(a, b, seconds)
        ended = len(self.asked) - 1 == self.ends_in
        paid = sum(self.set_up.get(name, 0.0) for name in b.techniques if name not in a.techniques)
        return replace(found, setup_seconds=paid, script_steps=500 if ended else None)


def searched(bench: ScriptedBench, steps: int | None, *candidates: Candidate) -> Search:
    search = search_over(bench, length=ScriptLength(steps))
    search.run(candidates)
    return search


def bench_with(effects: dict[str, float], **set_up: float) -> WithSetUp:
    bench = WithSetUp(effects)
    bench.set_up = set_up
    return bench


@pytest.mark.parametrize(("steps", "kept"), [(None, True), (999, False), (1000, True)])
def test_a_length_known_beforehand_holds_for_every_comparison(steps: int | None, kept: bool) -> None:
    search = searched(
        bench_with({"slow_to_start": 0.5}, slow_to_start=10.0), steps, candidate("slow_to_start")
    )
    assert ("slow_to_start" in search.found.techniques) is kept
    words = reason_words(search.tried[0].reason)
    assert words.endswith("pays after 1,000 steps, and a run has 999") is not kept


def test_an_end_seen_in_one_comparison_counts_in_those_that_follow() -> None:
    bench = bench_with({"first": 0.9, "second": 0.5}, second=10.0)
    bench.ends_in = 0
    assert searched(bench, None, candidate("first"), candidate("second")).found == Plan({"first": {}})
    bench = bench_with({"first": 0.9, "second": 0.5}, second=10.0)
    assert "second" in searched(bench, None, candidate("first"), candidate("second")).found.techniques


def test_what_was_kept_before_the_end_was_seen_is_judged_again() -> None:
    bench = bench_with({"first": 0.5, "second": 0.9}, first=10.0)
    bench.ends_in = 1
    assert searched(bench, None, candidate("first"), candidate("second")).found == Plan({"second": {}})


def test_techniques_tried_as_one_must_pay_too() -> None:
    bench = bench_with({"left": 0.7, "right": 0.7}, left=5.0, right=5.0)
    group = candidate("left", jointly=True), candidate("right", jointly=True)
    search = searched(bench, 500, *group)
    assert search.found == BASELINE
    words = reason_words(search.tried[0].reason)
    assert words == (
        "a gain together; its set-up of 10 s pays after 981 steps, and a run has 500: not kept: left, right"
    )
    assert searched(bench, 5000, *group).found == Plan({"left": {}, "right": {}})


def test_one_that_does_not_pay_takes_none_of_its_group_along() -> None:
    bench = bench_with({"left": 0.7, "right": 0.7}, left=5.0, right=0.0)
    search = searched(bench, 300, candidate("left", jointly=True), candidate("right", jointly=True))
    assert search.found == Plan({"right": {}})


def label(plan: Plan) -> str:
    return ", ".join(technique_words(*item) for item in plan.techniques.items())


def test_other_settings_that_would_not_pay_do_not_take_the_place() -> None:
    steady = Candidate(technique("steady", steadies=True), [{"size": 1}, {"size": 2}])

    class Settings(WithSetUp):
        def factor(self, plan: Plan) -> float:
            return {"": 1.0, "steady (size=1)": 0.8, "steady (size=2)": 0.5}[label(plan)]

        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            second = b.techniques.get("steady") == {"size": 2}
            return replace(super().compare(a, b, seconds), setup_seconds=10.0 if second else 0.0)

    for steps, size in ((500, 1), (5000, 2)):
        bench = Settings({})
        bench.set_up = {}
        found = searched(bench, steps, steady).found
        assert found == Plan({"steady": {"size": size}})


def test_what_one_comparison_finds_out_is_remembered() -> None:
    length = ScriptLength()
    plain = trial([0.5, 0.5], Plan({"a": {}}))
    assert length.told_of(plain).script_steps is None
    assert length.told_of(replace(plain, script_steps=40)).script_steps == 40
    assert length.told_of(plain).script_steps == 40
    assert length.told_of(replace(plain, script_steps=50)).script_steps == 50


def test_a_planned_length_counts_as_long_as_it_is_believed_and_no_end_was_seen() -> None:
    told: list[int | None] = [600]
    length = ScriptLength(planned=lambda: told[0])
    assert length.steps == 600
    told[0] = None
    assert length.steps is None
    length.seen = 2600
    assert length.steps == 2600
