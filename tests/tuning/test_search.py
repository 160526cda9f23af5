"""The search over a scripted bench: what it keeps, what it drops, and in what order it asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.bench.fake import ScriptedBench
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import WhyNot
from hasten.records.result import Refused, Tried
from hasten.records.trial import Proof, Seen, Trial, Unseen
from hasten.report.reasons import reason_words, why_not_words
from hasten.tuning.candidate import Candidate
from hasten.tuning.comparisons import Comparisons
from hasten.tuning.deadline import Deadline
from hasten.tuning.search import Search
from tests.bench.made_up import candidate, technique
from tests.tuning.searches import ENDLESS, search_over


def plan_of(*names: str) -> Plan:
    return Plan({name: {} for name in names})


def rows(search: Search) -> list[tuple[str, bool, str]]:
    return [(row.technique, row.kept, reason_words(row.reason)) for row in search.tried]


def test_what_wins_is_kept_and_what_does_not_is_dropped() -> None:
    bench = ScriptedBench({"fast": 0.7, "idle": 1.0, "slow": 1.3})
    search = search_over(bench)
    plan = search.run([candidate("fast"), candidate("idle"), candidate("slow")])
    assert plan == plan_of("fast")
    assert rows(search) == [
        ("fast", True, "a gain"),
        ("idle", False, "no gain found (cannot tell under 2%)"),
        ("slow", False, "slower"),
    ]


class WithSetUp(ScriptedBench):
    """Every plan takes ten seconds to set up; steps take 20 ms without it."""

    script_steps: int | None = None
    proofs: tuple[Proof, ...] = ()

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        found = super().compare(a, b, seconds)
        return replace(found, setup_seconds=10.0, script_steps=self.script_steps, proofs=self.proofs)


def test_a_row_says_when_the_set_up_has_paid() -> None:
    search = search_over(WithSetUp({"fast": 0.5, "idle": 1.0}))
    assert search.run([candidate("idle"), candidate("fast")]) == plan_of("fast")
    assert rows(search) == [
        ("idle", False, "no gain found (cannot tell under 2%); its set-up took 10 s"),
        ("fast", True, "a gain; its set-up of 10 s pays after 1,000 steps"),
    ]


@pytest.mark.parametrize(("steps", "kept"), [(999, False), (1000, True)])
def test_what_cannot_pay_before_the_script_ends_is_not_kept(steps: int, kept: bool) -> None:
    bench = WithSetUp({"fast": 0.5})
    bench.script_steps = steps
    search = search_over(bench)
    assert ("fast" in search.run([candidate("fast")]).techniques) is kept
    assert reason_words(search.tried[0].reason).endswith("and a run has 999") is not kept


@pytest.mark.parametrize(("effect", "kept"), [(0.98, False), (0.95, True)])
def test_a_slow_set_up_takes_a_clear_gain(effect: float, kept: bool) -> None:
    """Every process of the guard and of the confirmation pays for it."""
    search = search_over(ScriptedBench({"compile": effect}))
    assert search.run([candidate("compile")]) == (plan_of("compile") if kept else BASELINE)
    (row,) = search.tried
    assert (row.kept, reason_words(row.reason)) == (
        kept,
        "a gain"
        if kept
        else "a gain: not kept, because it may be below 3% and each process pays for the set-up",
    )


class TooLateFor(Deadline):
    """What has this technique could not be checked and confirmed any more."""

    def affords_end(self, plan: Plan) -> bool:
        return "slow" not in plan.techniques

    def enough_for(self, plan: Plan, seconds: float) -> int | None:
        return 700


@pytest.mark.attack("truth")
def test_what_could_not_be_confirmed_any_more_is_not_adopted_and_its_budget_named() -> None:
    search = search_over(WithSetUp({"slow": 0.5, "fast": 0.8}), TooLateFor(ENDLESS))
    assert search.run([candidate("slow"), candidate("fast")]) == plan_of("fast")
    assert rows(search)[0] == (
        "slow",
        False,
        "a gain; its set-up of 10 s pays after 1,000 steps: not kept, because no time is left to check "
        "and confirm it with its set-up in each process; --budget 700 would be enough",
    )
    assert search.tried[1].against == BASELINE


def test_a_row_says_what_a_proof_remarks() -> None:
    bench = WithSetUp({"fast": 0.5})
    bench.proofs = (Proof("fast", True, "", "2 graph breaks"), Proof("other", True, ""))
    search = search_over(bench)
    search.run([candidate("fast")])
    assert reason_words(search.tried[0].reason).endswith("pays after 1,000 steps; 2 graph breaks")


def test_each_is_tried_in_combination_with_what_was_kept_before() -> None:
    bench = ScriptedBench({"first": 0.7, "second": 0.8, "third": 0.9})
    plan = search_over(bench).run([candidate("first"), candidate("second"), candidate("third")])
    assert list(plan.techniques) == ["first", "second", "third"]
    assert bench.asked[:3] == [
        (BASELINE, plan_of("first")),
        (plan_of("first"), plan_of("first", "second")),
        (plan_of("first", "second"), plan),
    ]


def test_what_was_kept_is_judged_again_with_all_that_stayed() -> None:
    """All but the one kept last, which was measured with these already."""
    bench = ScriptedBench({"first": 0.7, "second": 0.8, "third": 0.9})
    plan = search_over(bench).run([candidate("first"), candidate("second"), candidate("third")])
    assert bench.asked[3:] == [(plan.without("first"), plan), (plan.without("second"), plan)]


def test_what_no_longer_earns_its_place_is_removed() -> None:
    """Alone the first gains; with the second it gains nothing more, and fewer techniques win a tie."""
    bench = ScriptedBench({"first": 0.8, "second": 0.7}, together={frozenset({"first", "second"}): 0.7})
    search = search_over(bench)
    assert search.run([candidate("first"), candidate("second")]) == plan_of("second")
    assert rows(search)[-1] == ("first", False, "no gain found (cannot tell under 2%): not kept")


def test_a_gain_within_the_noise_is_not_kept() -> None:
    search = search_over(ScriptedBench({"a": 0.9}, spread=0.2))
    assert search.run([candidate("a")]) == BASELINE
    assert rows(search) == [
        ("a", False, "no gain found (cannot tell under 39%)"),
        ("a", False, "no gain found (cannot tell under 28%)"),
    ]


@pytest.mark.parametrize(("effect", "kept"), [(0.98, True), (0.992, False)])
def test_a_gain_below_one_percent_is_a_tie(effect: float, kept: bool) -> None:
    plan = search_over(ScriptedBench({"a": effect}, spread=1e-6)).run([candidate("a")])
    assert plan == (plan_of("a") if kept else BASELINE)


def test_the_best_of_several_settings_is_kept() -> None:
    class ByCount:
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            factor = {1: 1.2, 2: 0.7, 4: 0.8}[int(b.techniques["threads"]["count"])]
            return ScriptedBench({"threads": factor}).compare(a, b, seconds)

        def method(self, a: Plan, b: Plan) -> str:
            return "scripted"

        def foreseen(self, a: Plan, b: Plan) -> float:
            return 0.0

        def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
            raise NotImplementedError

    search = search_over(ByCount())
    options = [{"count": 4}, {"count": 2}, {"count": 1}]
    plan = search.run([Candidate(technique("threads"), options)])
    assert plan == Plan({"threads": {"count": 2}})
    assert [row.settings for row in search.tried] == options


def test_a_failing_technique_is_never_kept_and_the_others_go_on() -> None:
    bench = ScriptedBench({"broken": 0.1, "fine": 0.8}, failures={"broken": "the script raised"})
    search = search_over(bench)
    assert search.run([candidate("broken"), candidate("fine")]) == plan_of("fine")
    assert rows(search)[0] == ("broken", False, "the script raised")
    assert search.tried[0].ratio is None


def test_what_steadies_is_on_from_the_start_and_judged_last() -> None:
    bench = ScriptedBench({"malloc": 0.8, "a": 0.7, "b": 0.9})
    plan = search_over(bench).run([candidate("a"), candidate("malloc", steadies=True), candidate("b")])
    assert plan == plan_of("malloc", "a", "b")
    assert bench.asked[0] == (plan_of("malloc"), plan_of("malloc", "a"))
    assert bench.asked[-1] == (plan_of("a", "b"), plan)


@pytest.mark.parametrize("failures", [{}, {"malloc": "had no effect"}])
def test_what_steadies_must_earn_its_place_too(failures: Mapping[str, str]) -> None:
    bench = ScriptedBench({"malloc": 1.0}, failures=failures)
    search = search_over(bench)
    assert search.run([candidate("malloc", steadies=True)]) == BASELINE
    assert [row.kept for row in search.tried] == [False]


def test_what_conflicts_with_the_plan_is_skipped() -> None:
    bench = ScriptedBench({"a": 0.7, "rival": 0.5, "b": 0.9})
    search = search_over(bench)
    plan = search.run([candidate("a"), candidate("rival", conflicts=["a"]), candidate("b")])
    assert plan == plan_of("a", "b")
    assert all("rival" not in b.techniques for _, b in bench.asked)


def test_what_conflicts_with_something_that_was_dropped_is_tried() -> None:
    bench = ScriptedBench({"a": 1.2, "rival": 0.5})
    assert search_over(bench).run([candidate("a"), candidate("rival", conflicts=["a"])]) == plan_of("rival")


class SlowBench(ScriptedBench):
    """Every comparison takes ten seconds of a clock that nothing else moves."""

    now = 0.0

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self.now += 10.0
        return super().compare(a, b, seconds)


def test_what_the_budget_does_not_reach_is_untried() -> None:
    bench = SlowBench({"a": 0.7, "b": 0.5, "c": 0.5})
    search = search_over(bench, Deadline(15.0, clock=lambda: bench.now))
    plan = search.run([candidate("a"), candidate("b"), candidate("c"), candidate("d")])
    assert plan == plan_of("a", "b")
    assert list(search.comparisons.untried) == ["c", "d"]


class Growing(Deadline):
    """Has as much time again, once it is asked for."""

    asked = 0

    def search_on(self) -> bool:
        self.asked += 1
        self.seconds += 15.0 if self.asked == 1 else 0.0
        return self.asked == 1


def test_a_search_that_found_nothing_goes_on_where_there_is_more_time() -> None:
    """A tutorial was told that nothing is faster, and one thread, never tried, was."""
    bench = SlowBench({"a": 1.0, "b": 1.0, "c": 0.5})
    left = Growing(15.0, clock=lambda: bench.now)
    search = search_over(bench, left)
    assert search.run([candidate("a"), candidate("b"), candidate("c"), candidate("d")]) == plan_of("c")
    assert list(search.comparisons.untried) == ["d"]
    assert left.asked == 1, "it has found something by then"


def test_a_search_that_could_not_have_found_anything_does_not_go_on() -> None:
    """Few steps a process, beside the loader's workers: "cannot tell under 56%"."""
    bench = SlowBench({"a": 1.0, "b": 1.0, "c": 0.5}, spread=0.4)
    left = Growing(15.0, clock=lambda: bench.now)
    search = search_over(bench, left)
    search.run([candidate("a"), candidate("b"), candidate("c")])
    assert (list(search.comparisons.untried), left.asked) == (["c"], 0)


@pytest.mark.parametrize(
    ("reserve", "effects", "found"),
    [
        (20.0, {"malloc": 0.8}, {"malloc"}),
        (9.0, {"malloc": 0.8}, set()),
        (20.0, {"malloc": 1.0}, set()),
        (20.0, {"malloc": 0.8, "a": 0.5}, {"malloc", "a"}),
    ],
)
def test_what_steadies_may_take_what_is_set_aside_where_nothing_else_was_found(
    reserve: float, effects: dict[str, float], found: set[str]
) -> None:
    """There is nothing else to check and confirm. Beside other programs a tune ended with half of its budget
    unused, and what it had on from the start, which made steps 1.5 times faster, was not compared.
    """

    class SetAside(Deadline):
        @property
        def with_reserve(self) -> float:
            return reserve

    class Long(SlowBench):
        def foreseen(self, a: Plan, b: Plan) -> float:
            return 10.0

    bench = Long(effects)
    search = search_over(bench, SetAside(25.0, clock=lambda: bench.now))
    candidates = [candidate("a"), candidate("b"), candidate("malloc", steadies=True)]
    assert search.run(candidates).techniques.keys() == found
    assert ("malloc" in {row.technique for row in search.tried}) is (reserve > 10 and "a" not in found)


@pytest.mark.parametrize(
    ("first", "seconds", "found"), [(True, 50.0, "a"), (True, 30.0, "b"), (False, 50.0, "b")]
)
def test_what_makes_all_else_shorter_is_tried_where_little_seems_left(
    first: bool, seconds: float, found: str
) -> None:
    """Beside another program, a step took 389 ms with two threads and 5 ms with one. Of a tune of 600 s, what
    was set aside for its end left 130 s, and that comparison takes 180 s.
    """

    class Late(Deadline):
        @property
        def left_for_first(self) -> float:
            return seconds

    class Foreseeing(ScriptedBench):
        def foreseen(self, a: Plan, b: Plan) -> float:
            return 40.0 if b.techniques.get("a", a.techniques.get("a")) != a.techniques.get("a") else 1.0

    bench = Foreseeing({"a": 0.5, "b": 0.9})
    search = search_over(bench, Late(20.0, clock=lambda: 0.0))
    of_two = replace(candidate("a"), options=[{"count": 3}, {"count": 1}])
    plan = search.run([replace(of_two, first=first), candidate("b")])
    assert found in plan.techniques
    assert ("a" in search.comparisons.untried) is (found == "b")
    tried = [row.settings["count"] for row in search.tried if row.technique == "a" and not row.ablation]
    assert tried == ([3] if found == "a" else []), "only the first may take what is set aside"


@pytest.mark.parametrize(("spread", "count"), [(0.08, 2), (0.6, 1)])
def test_of_settings_that_gain_for_sure_the_fastest_is_kept(spread: float, count: int) -> None:
    """Not the one whose interval ends lowest: two pairs may agree by chance."""

    class Noisy(ScriptedBench):
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            two = b.techniques["a"]["count"] == 2
            self._effects = {"a": 0.65 if two else 0.7}
            self._spread = spread if two else 0.002
            return super().compare(a, b, seconds)

    search = search_over(Noisy({}))
    search.run([replace(candidate("a"), options=[{"count": 1}, {"count": 2}, {"count": 3}])])
    assert search.found.techniques["a"] == {"count": count}
    first, second, third = (row for row in search.tried if row.technique == "a" and not row.ablation)
    assert first.ratio is not None
    assert second.ratio is not None
    assert second.ratio.high > first.ratio.high
    assert (first.kept, second.kept, third.kept) == (True, count == 2, False)


@pytest.mark.parametrize("left", [100.0, 5.0])
def test_what_came_too_late_in_a_running_training_is_compared_in_new_ones(left: float) -> None:
    """A script that has saved a checkpoint may still hold what it saved, and views of its weights with it."""

    class TooLate(ScriptedBench):
        new = ""

        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            trial = super().compare(a, b, seconds)
            if not self.new:
                self.new = "pairs"
                return replace(trial, ratio=None, failure="a: the script holds views", too_late=True)
            return replace(trial, method=self.new)

        def method(self, a: Plan, b: Plan) -> str:
            return self.new or "scripted"

        def foreseen(self, a: Plan, b: Plan) -> float:
            return 10.0 if self.new else 1.0

    search = search_over(TooLate({"a": 0.7}), Deadline(left, clock=lambda: 0.0))
    assert search.run([candidate("a")]) == (plan_of("a") if left > 10.0 else BASELINE)
    rows = [(row.kept, row.method) for row in search.tried]
    assert rows == ([(True, "pairs")] if left > 10.0 else [])
    assert list(search.comparisons.untried) == ([] if left > 10.0 else ["a"]), "a longer budget would do"


@pytest.mark.parametrize("left", [100.0, 5.0])
def test_what_gained_is_not_lost_because_a_training_had_gone_on_when_it_was_measured_again(
    left: float,
) -> None:
    class TooLate(ScriptedBench):
        times = 0

        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            trial = super().compare(a, b, seconds)
            self.times += b.techniques.keys() - a.techniques.keys() == {"a"}
            if self.times == 2:
                self.times = 3
                return replace(trial, ratio=None, failure="a: the script holds views", too_late=True)
            return replace(trial, method="pairs") if self.times == 4 else trial

        def foreseen(self, a: Plan, b: Plan) -> float:
            return 10.0 if self.times >= 3 else 1.0

    search = search_over(TooLate({"a": 0.7, "b": 0.8}), Deadline(left, clock=lambda: 0.0))
    assert search.run([candidate("a"), candidate("b")]) == plan_of("a", "b")
    again = [row for row in search.tried if row.ablation]
    assert [(row.technique, row.kept, row.method) for row in again] == [("a", True, "pairs")] * (left > 10.0)
    assert [row.technique for row in search.comparisons.left_out] == ["a"] * (left < 10.0)


@pytest.mark.parametrize(("ratio", "kept"), [(0.7, True), (0.93, False)])
def test_a_large_gain_is_given_the_time_that_its_end_takes(ratio: float, kept: bool) -> None:
    class Short(Deadline):
        def affords_end(self, plan: Plan) -> bool:
            return False

        def leave_end(self, plan: Plan) -> bool:
            return True

    search = search_over(ScriptedBench({"a": ratio}), Short(100.0))
    assert search.run([candidate("a")]) == (plan_of("a") if kept else BASELINE)
    (row,) = search.tried
    assert row.reason.decision == ("" if kept else "too late")


class OfStarts(SlowBench):
    """The technique named "early" shortens the start alone."""

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        trial = super().compare(a, b, seconds)
        return replace(trial, method="starts") if "early" not in a.techniques else trial


def test_a_search_that_found_something_for_the_start_alone_goes_on() -> None:
    bench = OfStarts({"early": 0.5, "b": 0.5})
    left = Growing(5.0, clock=lambda: bench.now)
    assert search_over(bench, left).run([candidate("early"), candidate("b")]) == plan_of("early", "b")
    assert left.asked == 1


class Affording(Deadline):
    """Names budgets: 100 s, and all that is asked for."""

    def enough_for(self, plan: Plan, seconds: float) -> int:
        return 100 + int(seconds)


def test_what_is_untried_is_told_with_the_budget_for_all_of_it() -> None:
    class Foreseeing(SlowBench):
        def foreseen(self, a: Plan, b: Plan) -> float:
            return 7.0

    bench = Foreseeing({"a": 0.7, "b": 0.5, "c": 0.5})
    search = search_over(bench, Affording(15.0, clock=lambda: bench.now))
    search.run([candidate("a"), candidate("b"), candidate("c"), candidate("d")])
    assert search.comparisons.untried == {"b": 121, "c": 121, "d": 121}
    words = why_not_words(WhyNot("no time", budget=121.0))
    assert words == "the budget ended first; --budget 121 would be enough"


def test_the_time_left_is_shared_among_what_is_still_to_do() -> None:
    asked: list[float] = []

    class Noting(SlowBench):
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            asked.append(seconds)
            return super().compare(a, b, seconds)

    bench = Noting({})
    search = search_over(bench, Deadline(100.0, clock=lambda: bench.now))
    search.run(
        [
            candidate("steady", steadies=True),
            Candidate(technique("a"), [{"n": 1}, {"n": 2}]),
            candidate("b"),
        ]
    )
    assert asked == pytest.approx([100 / 3 / 2, 100 / 3 / 2, 80 / 2, 70.0])


def test_what_needs_fresh_processes_gets_four_times_the_time() -> None:
    asked: list[float] = []

    class Noting(ScriptedBench):
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            asked.append(seconds)
            return super().compare(a, b, seconds)

    expensive = Candidate(type("expensive", (technique("expensive"),), {"scope": "process"}), [{}])
    search_over(Noting({}), Deadline(100.0, clock=lambda: 0.0)).run([expensive, candidate("live")])
    assert asked == pytest.approx([100 * 4 / 5, 100.0])


def test_what_is_to_be_tried_with_it_comes_and_is_judged_with_it() -> None:
    """Both are named, and each must earn its place."""
    bench = ScriptedBench({"workers": 0.7, "threads": 0.9})
    search = search_over(bench)
    workers = Candidate(technique("workers"), [{}], [plan_of("threads")])
    plan = search.run([workers, candidate("threads")])
    assert plan == plan_of("threads", "workers")
    assert bench.asked == [
        (BASELINE, plan_of("threads", "workers")),
        (plan_of("workers"), plan_of("threads", "workers")),
        (plan_of("threads"), plan_of("threads", "workers")),
    ]
    assert reason_words(search.tried[0].reason) == "a gain, with threads"


def test_what_is_tried_with_it_and_does_not_help_is_let_go() -> None:
    bench = ScriptedBench({"workers": 0.7})
    workers = Candidate(technique("workers"), [{}], [plan_of("threads")])
    assert search_over(bench).run([workers]) == plan_of("workers")


class NoisyAtTheEnd(ScriptedBench):
    """Comparisons in combination with others cannot tell: as many as are ``noisy``."""

    noisy = 10**9

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self._spread = 1.0 if 2 <= len(self.asked) < 2 + self.noisy else 0.002
        return super().compare(a, b, seconds)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("beside_b", [0.5, 0.8, 0.97, 1.0, 1.05])
def test_a_comparison_that_cannot_tell_changes_nothing(beside_b: float) -> None:
    both = frozenset({"a", "b"})
    search = search_over(NoisyAtTheEnd({"a": 0.9, "b": 0.5}, together={both: 0.5 * beside_b}))
    assert search.run([candidate("a"), candidate("b")]) == plan_of("a", "b")
    assert reason_words(search.tried[-1].reason).startswith("no gain found (too noisy to tell)")
    assert reason_words(search.tried[-1].reason).endswith("not conclusive, kept")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("beside_b", "stays"), [(0.8, True), (0.97, True), (0.995, False), (1.0, False)])
def test_what_could_not_be_told_is_compared_once_more_if_there_is_time(beside_b: float, stays: bool) -> None:
    """One noisy minute, and then a quiet one."""
    both = frozenset({"a", "b"})
    bench = NoisyAtTheEnd({"a": 0.9, "b": 0.5}, together={both: 0.5 * beside_b})
    bench.noisy = 1
    search = search_over(bench)
    assert ("a" in search.run([candidate("a"), candidate("b")]).techniques) is stays
    assert [row.technique for row in search.tried] == ["a", "b", "a", "a"]
    ratio = search.tried[-1].ratio
    assert ratio is not None
    assert ratio.count == 12
    assert ratio.value == pytest.approx(beside_b, rel=0.01)


class NoisyAt(ScriptedBench):
    """Noise hides what the comparison of one number finds, counted from 0."""

    noisy = 1

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self._spread = 0.5 if len(self.asked) == self.noisy else 0.002
        return super().compare(a, b, seconds)


def test_what_looked_faster_in_a_noisy_minute_is_tried_again_before_anything_expensive() -> None:
    search = search_over(NoisyAt({"a": 0.9, "b": 0.93, "c": 1.0, "costly": 1.0}))
    costly = Candidate(type("costly", (technique("costly"),), {"scope": "process"}), [{}])
    plan = search.run([*map(candidate, "abc"), costly])
    assert plan == plan_of("a", "b")
    assert [row.technique for row in search.tried][:5] == ["a", "b", "c", "b", "costly"]
    assert [row.kept for row in search.tried][:5] == [True, False, False, True, False]


@pytest.mark.parametrize("order", ["precision compile", "compile precision"])
@pytest.mark.parametrize("compiled", [0.5, 1.0])
def test_what_gains_with_another_is_tried_again_if_that_was_adopted_after_it(
    order: str, compiled: float
) -> None:
    """Casts are launches of their own on a GPU, until they are compiled."""
    both = {frozenset({"precision", "compile"}): 0.3}
    search = search_over(ScriptedBench({"precision": 1.2, "compile": compiled}, together=both))
    of_precision = replace(candidate("precision"), gains_with=frozenset({"compile"}))
    known = {"precision": of_precision, "compile": candidate("compile")}
    plan = search.run([known[name] for name in order.split()])
    tried = [row.technique for row in search.tried if not row.ablation]
    if compiled == 1.0:
        assert plan == BASELINE
        assert tried == order.split()  # there is no reason to
    else:
        assert plan == plan_of("compile", "precision")
        assert tried == ["compile", "precision"] or tried == ["precision", "compile", "precision"]


def test_what_looked_no_faster_is_not_tried_again() -> None:
    search = search_over(NoisyAt({"a": 0.9, "b": 1.0, "c": 1.0}))
    assert search.run([*map(candidate, "abc")]) == plan_of("a")
    assert [row.technique for row in search.tried] == ["a", "b", "c"]


def test_what_looked_faster_is_not_tried_again_without_time() -> None:
    class Slow(NoisyAt, SlowBench):
        pass

    bench = Slow({"a": 0.9, "b": 0.93})
    search = search_over(bench, Deadline(15.0, clock=lambda: bench.now))
    assert search.run([*map(candidate, "ab")]) == plan_of("a")
    assert [row.technique for row in search.tried] == ["a", "b"]
    assert not search.comparisons.untried


def test_every_comparison_is_announced_and_told() -> None:
    said: list[tuple[str, Plan]] = []
    told: list[Tried] = []
    bench = ScriptedBench({"a": 0.7, "b": 0.8})
    comparisons = Comparisons(
        bench, Deadline(ENDLESS), lambda name, against: said.append((name, against)), told.append
    )
    search = Search(comparisons)
    search.run([candidate("a"), candidate("b")])
    assert said == [("a", BASELINE), ("b", plan_of("a")), ("a", plan_of("b"))]
    assert told == search.tried
    assert [row.against for row in told] == [against for _, against in said]


# ---- together first
def together(*names: str) -> list[Candidate]:
    return [candidate(name, jointly=True) for name in names]


def test_without_a_gain_together_none_is_tried_singly() -> None:
    bench = ScriptedBench({"live": 0.8})
    search = search_over(bench)
    plan = search.run([candidate("live"), *together("a", "b", "c")])
    assert plan == plan_of("live")
    assert bench.asked == [
        (BASELINE, plan_of("live")),
        (plan_of("live"), plan_of("live", "a", "b", "c")),
    ]
    row = search.tried[1]
    assert (row.technique, row.together, row.kept) == ("environment", plan_of("a", "b", "c"), False)
    words = "no gain found together (cannot tell under 2%), so none tried alone: a, b, c"
    assert reason_words(row.reason) == words
    assert not search.comparisons.untried


def test_what_gains_together_is_judged_singly() -> None:
    bench = ScriptedBench({"a": 0.8})
    search = search_over(bench)
    assert search.run(together("a", "b", "c")) == plan_of("a")
    assert rows(search) == [
        ("environment", True, "a gain together: a, b, c"),
        ("a", True, "a gain in combination"),
        ("b", False, "no gain found (cannot tell under 2%): not kept"),
        ("c", False, "no gain found (cannot tell under 2%): not kept"),
        ("a", True, "a gain in combination"),  # with all that was kept
    ]


def test_all_that_was_kept_before_is_judged_with_what_gained_together() -> None:
    bench = ScriptedBench(
        {"live": 0.9, "a": 0.7, "b": 0.9},
        together={frozenset({"live", "a", "b"}): 0.6, frozenset({"live", "a"}): 0.7},
    )
    plan = search_over(bench).run([candidate("live"), *together("a", "b")])
    assert (plan.without("live"), plan.adding("live", {})) in bench.asked


def test_one_alone_is_tried_as_any_other() -> None:
    search = search_over(ScriptedBench({"a": 0.8}))
    assert search.run(together("a")) == plan_of("a")
    assert rows(search) == [("a", True, "a gain")]


def test_where_the_whole_is_slower_each_is_tried_singly() -> None:
    bench = ScriptedBench({"a": 0.8, "b": 1.5})
    search = search_over(bench)
    assert search.run(together("a", "b")) == plan_of("a")
    assert [reason_words(row.reason) for row in search.tried[:3]] == [
        "slower together, so each tried alone: a, b",
        "a gain",
        "slower",
    ]


def test_where_the_whole_fails_each_is_tried_singly() -> None:
    search = search_over(ScriptedBench({"a": 0.8}, failures={"b": "killed by SIGSEGV"}))
    assert search.run(together("a", "b")) == plan_of("a")
    assert rows(search)[0] == ("environment", False, "killed by SIGSEGV; each tried alone")


class Idle(ScriptedBench):
    """A technique named "idle" has no effect, and its proof says so."""

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        trial = super().compare(a, b, seconds)
        if "idle" not in b.techniques:
            return trial
        proofs = tuple(Proof(name, name != "idle", "counted") for name in b.techniques)
        return replace(trial, ratio=None, failure="idle had no effect (counted)", proofs=proofs)


def test_what_has_no_effect_is_left_out_and_the_rest_tried_again() -> None:
    bench = Idle({"a": 0.8, "b": 0.9})
    search = search_over(bench)
    assert search.run(together("a", "idle", "b")) == plan_of("a", "b")
    assert rows(search)[:2] == [
        ("environment", False, "idle had no effect (counted); again without"),
        ("environment", True, "a gain together: a, b"),
    ]
    assert bench.asked[1] == (BASELINE, plan_of("a", "b"))


def test_what_cannot_be_in_one_plan_is_not_tried_together() -> None:
    bench = ScriptedBench({})
    search_over(bench).run([*together("a", "b"), candidate("rival", conflicts=["a"], jointly=True)])
    assert bench.asked == [(BASELINE, plan_of("a", "b"))]


class SlowPairs(SlowBench):
    """Every comparison takes ten seconds, and says so, as one of processes does."""

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        return replace(super().compare(a, b, seconds), method="pairs", seconds=10.0)

    def foreseen(self, a: Plan, b: Plan) -> float:
        return 10.0


def test_what_the_budget_does_not_let_be_judged_stays_and_it_is_said() -> None:
    bench = SlowPairs({"a": 0.8, "b": 0.9})
    search = search_over(bench, Deadline(25.0, clock=lambda: bench.now))
    assert search.run(together("a", "b", "c")) == plan_of("a", "b", "c")
    assert [row.technique for row in search.tried] == ["environment", "a"]
    assert [row.technique for row in search.comparisons.left_out] == ["b", "c"]
    assert search.comparisons.left_out[0].reasons == (WhyNot("no time in combination"),)


def test_without_any_budget_left_they_are_untried() -> None:
    bench = SlowPairs({"live": 0.8})
    search = search_over(bench, Deadline(15.0, clock=lambda: bench.now))
    search.run([candidate("live"), *together("a", "b")])
    assert list(search.comparisons.untried) == ["a", "b"]


# ---- other settings of what is on from the start
class ByKind:
    """An allocator has its effect by its kind; nothing else has any."""

    def __init__(self, **factors: float) -> None:
        self._factors = factors

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        ratio = self._factor(b) / self._factor(a)
        trial = ScriptedBench({"x": ratio}).compare(BASELINE, plan_of("x"), seconds)
        return replace(trial, a=a, b=b)

    def method(self, a: Plan, b: Plan) -> str:
        return "scripted"

    def foreseen(self, a: Plan, b: Plan) -> float:
        return 0.0

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        raise NotImplementedError

    def _factor(self, plan: Plan) -> float:
        settings = plan.techniques.get("malloc")
        return 1.0 if settings is None else self._factors[str(settings.get("kind", "first"))]


MALLOC = Candidate(technique("malloc", steadies=True), [{}, {"kind": "second"}, {"kind": "third"}])


@pytest.mark.parametrize(
    ("factors", "kept", "last"),
    [
        ((0.8, 0.7, 0.9), {"kind": "second"}, "slower: the previous settings stay"),
        ((0.8, 0.8, 0.7), {"kind": "third"}, "a gain over the previous settings"),
        ((0.8, 0.8, 0.8), {}, "no gain found (cannot tell under 2%): the previous settings stay"),
        ((1.0, 1.0, 0.7), {"kind": "third"}, "a gain"),
        ((1.0, 1.0, 1.0), None, "no gain found (cannot tell under 2%)"),
    ],
)
def test_other_settings_of_what_steadies_are_tried_at_the_end(
    factors: tuple[float, float, float], kept: dict[str, str] | None, last: str
) -> None:
    bench = ByKind(**dict(zip(("first", "second", "third"), factors, strict=True)))
    search = search_over(bench)
    plan = search.run([MALLOC])
    assert plan == (BASELINE if kept is None else Plan({"malloc": kept}))
    assert reason_words(search.tried[-1].reason) == last
    assert [row.settings for row in search.tried] == [{}, {"kind": "second"}, {"kind": "third"}]


def test_settings_that_the_budget_does_not_reach_are_said() -> None:
    bench = SlowPairs({"malloc": 0.8})
    search = search_over(bench, Deadline(15.0, clock=lambda: bench.now))
    assert search.run([MALLOC]) == plan_of("malloc")
    assert search.comparisons.left_out == [
        Refused("malloc", (WhyNot("no time", untried=({"kind": "second"}, {"kind": "third"})),))
    ]


NAMES = ["a", "b", "c", "d", "e"]
EFFECTS = st.fixed_dictionaries({name: st.floats(0.3, 2.0) for name in NAMES})
GROUPS = st.dictionaries(
    st.frozensets(st.sampled_from(NAMES), min_size=2, max_size=2), st.floats(0.3, 2.0), max_size=1
)


@given(
    effects=EFFECTS,
    order=st.permutations(NAMES),
    steadying=st.sets(st.sampled_from(NAMES), max_size=1),
    jointly=st.sets(st.sampled_from(NAMES)),
    broken=st.sets(st.sampled_from(NAMES), max_size=2),
    spread=st.floats(0.0, 0.05),
)
def test_only_what_gains_is_kept_or_what_noise_hides(
    effects: dict[str, float],
    order: Sequence[str],
    steadying: set[str],
    jointly: set[str],
    broken: set[str],
    spread: float,
) -> None:
    """What never gained by itself stays where no comparison can tell."""
    bench = ScriptedBench(effects, dict.fromkeys(broken, "fails"), spread=spread)
    plan = search_over(bench).run(
        [candidate(name, steadies=name in steadying, jointly=name in jointly) for name in order]
    )
    hidden = 1 + 6 * spread
    assert all(effects[name] < (hidden if name in steadying | jointly else 1) for name in plan.techniques)
    assert not broken & set(plan.techniques)
    assert bench.factor(plan) <= hidden


@given(
    effects=EFFECTS, together=GROUPS, order=st.permutations(NAMES), jointly=st.sets(st.sampled_from(NAMES))
)
def test_no_technique_of_the_plan_could_be_left_out(
    effects: dict[str, float],
    together: dict[frozenset[str], float],
    order: Sequence[str],
    jointly: set[str],
) -> None:
    """Also where two techniques help or hinder each other."""
    bench = ScriptedBench(effects, together=together)
    plan = search_over(bench).run([candidate(name, jointly=name in jointly) for name in order])
    assert bench.factor(plan) <= 1
    assert all(bench.factor(plan.without(name)) > bench.factor(plan) for name in plan.techniques)


def test_the_deadline_counts_from_its_making() -> None:
    now = [100.0]
    deadline = Deadline(30.0, clock=lambda: now[0])
    now[0] = 112.0
    assert deadline.left == pytest.approx(18.0)
    now[0] = 140.0
    assert deadline.left < 0


class Told(Deadline):
    """Remembers what it was told of gains."""

    def __init__(self) -> None:
        super().__init__(ENDLESS)
        self.gains: list[float] = []

    def gained(self, speedup: float, names: Iterable[str], other_settings: bool = False) -> None:
        self.gains.append(speedup)


def test_the_lower_end_of_each_gain_says_how_much_its_claim_will_need() -> None:
    told = Told()
    search = search_over(ScriptedBench({"fast": 0.5, "idle": 1.0}), told)
    search.run([candidate("fast"), candidate("idle")])
    (row,) = [row for row in search.tried if row.kept]
    assert row.ratio is not None
    assert told.gains == [1 / row.ratio.high]


def test_a_joint_gain_is_told_of_too() -> None:
    told = Told()
    search = search_over(ScriptedBench({"left": 0.8, "right": 0.8}), told)
    search.run([candidate("left", jointly=True), candidate("right", jointly=True)])
    together = search.tried[0]
    assert together.ratio is not None
    assert told.gains[0] == 1 / together.ratio.high


def no_workers() -> Candidate:
    """Samples are kept in memory where no worker processes read them."""
    kept = plan_of("dataset_in_ram")
    return Candidate(CATALOG["loader_workers"], [{"count": 0}], [kept], carries=frozenset(kept.techniques))


@pytest.mark.parametrize("stays", [True, False])
def test_what_applies_only_with_another_goes_with_it(stays: bool) -> None:
    whole = plan_of("dataset_in_ram").adding("loader_workers", {"count": 0}).adding("a", {})
    together = {} if stays else {frozenset(whole.techniques): 0.6}  # more than "a" takes alone
    bench = ScriptedBench({"dataset_in_ram": 0.7, "a": 0.5}, together=together)
    found = search_over(bench).run([no_workers(), candidate("a"), candidate("b")])
    assert found == (whole if stays else plan_of("a"))
    assert not stays or (plan_of("a"), whole) in bench.asked
    for plan in (plan for pair in bench.asked for plan in pair):
        assert "loader_workers" in plan.techniques or "dataset_in_ram" not in plan.techniques


@pytest.mark.parametrize("how", ["malloc: it does not apply here", "malloc had no effect (0 of 0)"])
def test_where_what_is_tried_along_fails_the_technique_is_tried_without_it(how: str) -> None:
    bench = ScriptedBench({"malloc": 0.9}, {"malloc": how})
    along = Candidate(CATALOG["loader_workers"], [{"count": 2}], [plan_of("malloc")])
    found = search_over(bench).run([along])
    alone = BASELINE.adding("loader_workers", {"count": 2})
    assert [b for _, b in bench.asked] == [plan_of("malloc").adding("loader_workers", {"count": 2}), alone]
    assert found == BASELINE, "it gains nothing, but it was looked at"


def test_of_what_is_tried_along_only_what_fails_is_left_out() -> None:
    bench = ScriptedBench({"dataset_in_ram": 0.6}, {"batched_fetch": "batched_fetch had no effect (0 of 9)"})
    along = plan_of("dataset_in_ram", "batched_fetch")
    carries = frozenset(along.techniques)
    found = search_over(bench).run([replace(no_workers(), together_with=[along], carries=carries)])
    assert found == plan_of("dataset_in_ram").adding("loader_workers", {"count": 0})
    assert bench.asked[1] == (BASELINE, found)


def test_where_it_fails_itself_it_is_not_tried_again() -> None:
    bench = ScriptedBench({"malloc": 0.9}, {"loader_workers": "loader_workers: it does not apply here"})
    along = Candidate(CATALOG["loader_workers"], [{"count": 2}], [plan_of("malloc")])
    search_over(bench).run([along])
    assert len(bench.asked) == 1


LOWER = Candidate(CATALOG["bf16"], [{}], gains_with=frozenset({"channels_last"}))
LAYOUT = Candidate(CATALOG["channels_last"], [{}])
ITS_RIVAL = Candidate(CATALOG["matmul_precision"], [{"precision": "medium"}])


def test_what_gains_by_now_is_tried_again_before_what_excludes_it() -> None:
    """Lower precision pays in convolutions that are laid out for it: no other precision is to take its place
    before.
    """
    together = {frozenset({"bf16", "channels_last"}): 0.5}
    bench = ScriptedBench({"bf16": 0.999, "channels_last": 0.9, "matmul_precision": 0.95}, together=together)
    found = search_over(bench).run([LOWER, LAYOUT, ITS_RIVAL])
    assert found == plan_of("channels_last", "bf16")


def test_where_nothing_was_found_since_it_is_not_tried_again_for_what_excludes_it() -> None:
    bench = ScriptedBench({"bf16": 0.999, "matmul_precision": 0.95})
    search_over(bench).run([LOWER, ITS_RIVAL])
    assert [b for _, b in bench.asked].count(plan_of("bf16")) == 1
