"""What the end of a tune will take, from what things cost so far, and what may be spent before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from hasten.bench.base import for_steps
from hasten.bench.comparing.decisions import CLAIM_LEAST_PROCESSES, Effort
from hasten.records.plan import BASELINE, Plan
from hasten.tuning.budget import Budget
from hasten.tuning.costs import Costs
from hasten.tuning.search_time import SearchTime
from tests.bench.made_up import observation
from tests.bench.paper_epochs import QUICK, known

PLAN = Plan({"compile": {}, "malloc": {}})


@dataclass
class Known:
    """What a bench has learnt."""

    pair_seconds: float | None = None
    setups: dict[str, float] = field(default_factory=dict)
    disturbed_share: float = 0.0
    waited_seconds: float = 0.0
    stretches: float | None = None  # of a pair that confirms over whole stretches

    @property
    def plain_pair_seconds(self) -> float | None:
        return self.pair_seconds

    def stretch_pair(self, plan: Plan) -> float | None:
        return self.stretches

    def for_steps(self, plan: Plan) -> Plan:
        return for_steps(plan)

    def setup(self, plan: Plan) -> float:
        return sum(self.setups.get(name, 0.0) for name in plan.techniques)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def budget_after(spent: float = 0.0, known: Known | None = None, seconds: float = 150.0) -> Budget:
    """A guard is estimated to take ten seconds, and a pair five."""
    clock = Clock()
    made = Budget(seconds, clock)
    made.divide(observation(), 75, known or Known())
    made.costs = Costs(10.0, 5.0, 120, Effort(10))
    clock.now = spent
    return made


def test_what_is_not_known_is_as_estimated() -> None:
    assert budget_after().pair(PLAN) == 5.0
    assert budget_after().guard(PLAN) == 10.0


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("pair_seconds", "slower"), [(2.5, 1.0), (5.0, 1.0), (10.0, 2.0), (50.0, 10.0)])
def test_where_pairs_took_longer_so_will_the_guard(pair_seconds: float, slower: float) -> None:
    seen = budget_after(known=Known(pair_seconds))
    assert seen.pair(PLAN) == pair_seconds
    assert seen.guard(PLAN) == 10.0 * slower


def test_where_whole_stretches_are_confirmed_pairs_take_as_long_as_these() -> None:
    seen = budget_after(known=Known(5.0, {"compile": 20.0}, stretches=45.0))
    assert seen.pair(PLAN) == 65.0
    assert seen.comparison(PLAN) == 5 * 25.0, "the search's own are of steps"


@pytest.mark.parametrize("spent", [0.0, 60.0, 140.0])
@pytest.mark.parametrize("seconds", [0.0, 50.0, 2000.0])
def test_under_the_budget_that_is_named_all_of_it_fits(spent: float, seconds: float) -> None:
    known = Known(5.0, stretches=45.0)
    needed = budget_after(spent, known).enough_for(PLAN, seconds)
    assert needed > 150.0
    assert budget_after(spent, known, float(needed)).search_left(PLAN) >= seconds
    if seconds:
        assert needed < 1.1 * (spent + seconds + 20 * 45.0 + 100)


def test_set_ups_count_in_every_pair_and_in_the_guard() -> None:
    seen = budget_after(known=Known(5.0, {"compile": 20.0, "malloc": 1.0}))
    assert (seen.pair(PLAN), seen.guard(PLAN)) == (26.0, 31.0)
    assert (seen.pair(BASELINE), seen.guard(BASELINE)) == (5.0, 10.0)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("setup", "share", "fits"), [(5.0, 0.0, True), (17.0, 0.0, False), (8.0, 0.2, False)]
)
def test_what_is_slow_to_set_up_needs_time_for_that_in_every_process(
    setup: float, share: float, fits: bool
) -> None:
    """Half of the budget is spent. The third runs while other programs do, and would fit without them."""
    known = Known(5.0, {"compile": setup}, disturbed_share=share)
    seen = budget_after(75.0, known)
    assert seen.affords_end(PLAN) is fits
    assert budget_after(75.0, Known(5.0, {"compile": min(setup, 8.0)})).affords_end(PLAN)
    needed = budget_after(75.0, known).enough_for(PLAN, 0.0)
    assert budget_after(75.0, known, float(needed)).affords_end(PLAN)


def test_the_next_guard_will_take_as_long_as_the_last() -> None:
    seen = budget_after()
    seen.guarded(PLAN, 33.0, 120)
    assert seen.guard(PLAN) == pytest.approx(33.0)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("start", "steps", "seconds", "whole"),
    [
        (0.0, 20, 5.0, 30.0),
        (4.0, 20, 5.0, 10.0),  # as estimated: 4 s until they train, and 0.05 s a step
        (4.0, 20, 10.0, 20.0),
        (4.0, 60, 14.0, 20.0),
    ],
)
def test_what_a_shorter_guard_took_is_not_taken_for_a_longer_ones(
    start: float, steps: int, seconds: float, whole: float
) -> None:
    seen = budget_after()
    seen.costs = replace(seen.costs, guard_start=start)
    seen.guarded(PLAN, seconds, steps)
    assert seen.guard(PLAN) == pytest.approx(whole)
    assert seen.guard(PLAN, steps) == pytest.approx(seconds)


@pytest.mark.attack("truth")
def test_after_a_shorter_guard_the_next_is_not_longer_than_fits() -> None:
    """27 s are left in addition to a claim's least, and all its steps would take 60 s."""
    seen = budget_after(124.0, Known(5.0))
    seen.guarded(PLAN, 30.0, 60)
    assert abs(seen.guard_steps(PLAN) - 54) <= 1


def test_the_set_up_of_another_plan_is_not_taken_for_the_guards() -> None:
    seen = budget_after(known=Known(5.0, {"compile": 20.0}))
    seen.guarded(PLAN, 30.0, 120)
    assert seen.guard(PLAN) == pytest.approx(30.0)
    assert seen.guard(BASELINE) == pytest.approx(10.0)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("spent", "pair_seconds", "pairs"),
    [
        (0.0, 5.0, 10),  # never more than that
        (98.0, 5.0, 10),
        (100.0, 5.0, 9),
        (128.0, 5.0, 4),
        (145.0, 5.0, 4),  # a little too late
        (151.5, 5.0, 0),  # much too late
        (0.0, 30.0, 4),
        (0.0, 40.0, 4),
        (0.0, 50.0, 0),
        (200.0, 0.1, 0),
    ],
)
def test_as_many_pairs_as_fit_and_none_where_a_claim_would_come_too_late(
    spent: float, pair_seconds: float, pairs: int
) -> None:
    efforts = budget_after(spent, Known(pair_seconds)).confirmations(PLAN)
    assert [(plan, effort.pairs) for plan, effort in efforts] == ([(PLAN, pairs)] if pairs else [])


@pytest.mark.parametrize(
    ("spent", "pair_seconds", "setup", "looks"),
    [
        (0.0, 5.0, 0.0, 20),  # never more than that
        (58.0, 5.0, 0.0, 16),
        (98.0, 5.0, 0.0, 0),
        (140.0, 5.0, 0.0, 0),
        (0.0, 6.0, 5.0, 4),  # 38.5 s are left after ten pairs of 11 s, and two processes take 14 s
    ],
)
def test_what_pairs_leave_is_for_processes_of_the_plan_alone(
    spent: float, pair_seconds: float, setup: float, looks: int
) -> None:
    ((_, effort),) = budget_after(spent, Known(pair_seconds, {"malloc": setup})).confirmations(PLAN)
    assert effort.looks == looks


class LongStretches(Known):
    """Five seconds a pair of steps, and 45 s one of whole stretches, over which a plan with ``QUICK`` is
    confirmed.
    """

    def stretch_pair(self, plan: Plan) -> float | None:
        return 45.0 if plan.holds(QUICK) else None


@pytest.fixture
def whole() -> Iterator[Plan]:
    """A plan for steps and for evaluation."""
    with known():
        yield Plan({**PLAN.techniques, **QUICK.techniques})


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("left", "of_steps", "of_all"),
    [
        (891.0, Effort(10, 20, claims=2), Effort(10, 14, claims=2)),
        (300.0, Effort(10, 20, claims=2), Effort(4, 0, claims=2)),
        (260.0, Effort(10, 12, claims=2), Effort(4, 0, claims=2)),
        (205.0, Effort(5, 0, claims=2), Effort(4, 0, claims=2)),
        (150.0, None, Effort(4)),  # both would end too late
        (40.0, Effort(8), None),  # the whole would
        (-140.0, None, None),
    ],
)
def test_what_a_plan_has_for_steps_is_confirmed_by_itself_too(
    whole: Plan, left: float, of_steps: Effort | None, of_all: Effort | None
) -> None:
    seen = budget_after(900.0 - 9.0 - left, LongStretches(5.0), 900.0)
    expected = [(PLAN, of_steps), (whole, of_all)]
    assert list(seen.confirmations(whole)) == [(plan, effort) for plan, effort in expected if effort]


def test_a_plan_for_other_parts_alone_is_one_claim(whole: Plan) -> None:
    ((plan, effort),) = budget_after(0.0, LongStretches(5.0), 900.0).confirmations(QUICK)
    assert (plan, effort.claims) == (QUICK, 1)


@pytest.mark.parametrize("budget", [300.0, 900.0, 3000.0])
def test_both_confirmations_are_set_aside(whole: Plan, budget: float) -> None:
    seen = budget_after(0.0, LongStretches(5.0), budget)
    less = budget_after(0.0, LongStretches(5.0), budget).search_left(QUICK) - seen.search_left(whole)
    assert seen.search_left(whole) <= budget - 10 - 4 * 45 - 4 * 5
    assert 0 <= less <= 101
    named = budget_after(0.0, LongStretches(5.0)).enough_for(whole, 100.0)
    assert budget_after(0.0, LongStretches(5.0), float(named)).search_left(whole) >= 100.0


def test_the_last_has_what_those_before_it_left(whole: Plan) -> None:
    """Those of steps may need no processes alone, and may take longer."""
    for left, pairs in ((250.0, 5), (180.0, 4), (100.0, 4), (20.0, 0)):
        seen = budget_after(900.0 - 9.0 - left, LongStretches(5.0), 900.0)
        assert seen.refitted(whole, Effort(4, claims=2)) == (Effort(pairs, claims=2) if pairs else None)


@pytest.mark.attack("truth")
def test_where_the_whole_cannot_be_confirmed_it_is_checked_for_its_steps(whole: Plan) -> None:
    seen = budget_after(800.0, LongStretches(5.0), 900.0)
    assert seen.affords_guard(whole)
    assert seen.guard_most(whole) >= seen.guard(whole)
    assert not seen.affords_guard(QUICK)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("spent", "affordable"), [(0.0, True), (124.0, True), (125.0, False), (150.0, False), (1e9, False)]
)
def test_a_guard_is_begun_only_where_a_claim_can_follow(spent: float, affordable: bool) -> None:
    assert budget_after(spent, Known(5.0)).affords_guard(PLAN) is affordable


@pytest.mark.attack("truth")
@pytest.mark.parametrize("spent", [0.0, 50.0, 120.0, 149.0, 300.0])
@pytest.mark.parametrize("pair_seconds", [None, 0.5, 8.0, 60.0])
def test_what_is_under_way_is_stopped_in_time(spent: float, pair_seconds: float | None) -> None:
    """Each part, if it took all it may, leaves the next what that needs."""
    seen = budget_after(spent, Known(pair_seconds))
    least = 4 * seen.pair(PLAN)
    search = seen.search_most(PLAN)
    assert search >= 0
    assert search == 0 or spent + search + seen.guard(PLAN) + least <= 150.0
    guard = seen.guard_most(PLAN)
    assert guard == 0 or spent + guard + least <= 1.2 * 150.0
    assert spent + seen.confirmation_most() <= max(spent, 1.2 * 150.0)
    assert seen.search_left(PLAN) <= search or search == 0


def test_what_comes_first_leaves_what_a_running_comparison_leaves() -> None:
    left = SearchTime(budget_after(known=Known(20.0)), lambda: PLAN)
    assert left.left_for_first == pytest.approx(left.most(), abs=1.0)
    assert left.most() < left.budget.left / 2 - 2.0


def test_the_search_has_less_where_what_it_found_is_slow_to_set_up() -> None:
    seen = budget_after(known=Known(5.0, {"compile": 5.0}))
    found = [BASELINE]
    left = SearchTime(seen, lambda: found[0])
    before, most, first = left.left, left.most(), left.left_for_first
    assert first == pytest.approx(min(most, seen.left / 2), abs=1.0)
    found[0] = PLAN
    assert left.left < before
    assert left.most() < most
    assert left.left_for_first <= left.most()


@pytest.mark.parametrize("spent", [20.0, 140.0, 170.0])
def test_the_budget_that_would_do_lets_it_be_checked_and_confirmed(spent: float) -> None:
    known = Known(12.0)
    longer = budget_after(spent, known).enough(PLAN)
    assert longer % 10 == 0
    assert budget_after(spent, known, longer).affords_guard(PLAN)


def test_what_is_missing_is_told_with_what_the_end_was_seen_to_take() -> None:
    seen = budget_after(50.0, Known(20.0, disturbed_share=0.9))
    found = seen.too_little(PLAN, ("compile",))
    assert found.enough == seen.enough(PLAN)
    assert found.techniques == ("compile",)
    assert found.seen is not None
    assert (found.seen.spent, found.seen.of, found.seen.disturbed) == (50.0, 150.0, 0.9)
    assert found.seen.times == pytest.approx(20.0 / seen.costs.pair)
    assert found.seen.needed == pytest.approx(2 * (seen.guard(PLAN) + 4 * seen.pair(PLAN)) + 1.5)
    assert found.seen.needed > seen.left
    alone = seen.too_little(PLAN).seen
    assert alone is not None
    assert alone.needed == pytest.approx(2 * 4 * seen.pair(PLAN) + 1.5)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("share", "search"),
    [
        (0.0, 150 - 10 - 50 - 1.5),
        (0.15, 150 - 1.45 * 10 - 50 - 1.5),  # ten pairs, or fewer slow ones
        (0.9, 150 - 2 * 10 - 50 - 1.5),
    ],
)
def test_while_other_programs_run_the_end_is_left_more_time(share: float, search: float) -> None:
    seen = budget_after(known=Known(5.0, disturbed_share=share))
    assert seen.search_left(PLAN) == pytest.approx(search)


@pytest.mark.attack("truth")
def test_a_claims_least_is_set_aside_as_slow_as_it_will_be() -> None:
    quiet, busy = (budget_after(known=Known(20.0, disturbed_share=share)) for share in (0.0, 0.9))
    guards = quiet.guard(PLAN), 2 * busy.guard(PLAN)
    pairs = CLAIM_LEAST_PROCESSES * 20, 2 * CLAIM_LEAST_PROCESSES * 20
    assert quiet.search_left(PLAN) == pytest.approx(150 - guards[0] - pairs[0] - 1.5)
    assert busy.search_left(PLAN) == pytest.approx(150 - guards[1] - pairs[1] - 1.5)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("waited", "more"), [(0.0, 0.0), (9.0, 9.0), (40.0, 15.0)])
def test_the_search_is_given_back_what_others_took_of_it(waited: float, more: float) -> None:
    """Up to a tenth of the budget: then it tries as much as on a quiet machine."""
    seen = budget_after(known=Known(5.0, waited_seconds=waited))
    assert seen.search_left(PLAN) == pytest.approx(budget_after(known=Known(5.0)).search_left(PLAN) + more)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("spent", "share", "steps"),
    [
        (0.0, 0.5, 120),
        (124.0, 0.0, 120),  # 28.5 s are left after a claim's least, and it takes ten
        (138.0, 0.0, 120),
        (146.0, 0.0, 60),
        (128.0, 0.5, 45),  # 49 s, of which a claim's least takes 41.5, and all is twice as slow
        (149.5, 0.5, 20),  # never fewer
    ],
)
def test_a_guard_is_shorter_where_there_is_no_time_for_the_whole(
    spent: float, share: float, steps: int
) -> None:
    seen = budget_after(spent, Known(5.0, disturbed_share=share))
    assert abs(seen.guard_steps(PLAN) - steps) <= 6


@pytest.mark.attack("truth")
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_search_that_takes_all_it_may_leaves_enough_for_a_claim(share: float) -> None:
    """However slow all becomes: a guard, and the fewest pairs."""
    known = Known(5.0, disturbed_share=share)
    most = budget_after(known=known).search_most(PLAN)
    seen = budget_after(most + seen_guard(known), known)
    ((_, effort),) = seen.confirmations(PLAN)
    assert effort.pairs >= CLAIM_LEAST_PROCESSES
    assert seen.confirmation_most() >= seen.strain * CLAIM_LEAST_PROCESSES * seen.pair(PLAN)


def seen_guard(known: Known) -> float:
    """What it takes while those programs run."""
    seen = budget_after(known=known)
    return seen.strain * seen.guard(PLAN)


@pytest.mark.attack("truth")
def test_if_nothing_was_found_the_search_goes_on_while_other_programs_run() -> None:
    """Nothing is to be confirmed yet, so nothing is lost where the end takes longer than there is time."""
    busy, quiet = (budget_after(known=Known(20.0, disturbed_share=share)) for share in (0.9, 0.0))
    assert busy.search_left(BASELINE) == pytest.approx(quiet.search_left(BASELINE))
    assert busy.search_left(PLAN) < busy.search_left(BASELINE)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("plan", [BASELINE, PLAN])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("waited", [0.0, 12.0])
def test_nothing_is_begun_that_would_be_stopped_at_once(plan: Plan, share: float, waited: float) -> None:
    known = Known(20.0, disturbed_share=share, waited_seconds=waited)
    for spent in range(0, 60, 4):
        left = SearchTime(budget_after(spent, known), lambda: plan)
        assert left.left <= left.most()
        assert left.left_with(PLAN) <= left.budget.search_most(PLAN)


def test_the_first_comparison_is_stopped_no_earlier_while_other_programs_run() -> None:
    busy, quiet = (budget_after(known=Known(20.0, disturbed_share=share)) for share in (0.9, 0.0))
    assert busy.search_most(BASELINE) == pytest.approx(quiet.search_most(BASELINE))


@pytest.mark.parametrize(("speedup", "freed"), [(1.25, 0.0), (1.35, 25.0)])
def test_a_plain_gain_leaves_the_search_what_only_a_close_one_needs(speedup: float, freed: float) -> None:
    """Of the 50 s that are set aside, ten pairs take 25, and more processes of the plan alone the rest."""
    seen = budget_after(known=Known(pair_seconds=2.5))
    before = seen.search_left(PLAN)
    seen.gains.add(speedup, [])
    assert seen.search_left(PLAN) - before == pytest.approx(freed)
    ((_, effort),) = seen.confirmations(PLAN)
    assert effort.looks > 0, "what is left in the end may still go into them"
