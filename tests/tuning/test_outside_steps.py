"""The search over what makes other parts of a run shorter than its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import WhyNot
from hasten.records.result import Refused
from hasten.records.trial import Seen, Trial, Unseen
from hasten.report.reasons import reason_words, why_not_words
from hasten.tuning.bounds import Bounds
from hasten.tuning.candidate import Candidate
from hasten.tuning.deadline import Deadline
from hasten.tuning.outside_steps import divided
from hasten.tuning.paying import ScriptLength
from hasten.tuning.search import Search
from tests.bench.made_up import candidate
from tests.bench.paper_epochs import outside
from tests.tuning.searches import search_over

START = {"early": ("start",), "along": ("start",)}
EVALUATION = {"quick": ("evaluation",)}
BOTH = {"quick": ("evaluation",), "later": ("saving",)}


def of(name: str, *parts: str, share: float | None = None) -> Candidate:
    return Candidate(outside(name, *parts), [{}], share=share)


def fresh(name: str) -> Candidate:
    return Candidate(outside(name, "steps", scope="process"), [{}])


def plan_of(*names: str) -> Plan:
    return Plan({name: {} for name in names})


def why_not(search: Search) -> dict[str, str]:
    return {row.technique: "; ".join(map(why_not_words, row.reasons)) for row in search.comparisons.left_out}


def test_a_plan_of_nothing_but_quicker_evaluation_is_found() -> None:
    bench = ScriptedBench({"quick": 0.6}, outside=EVALUATION, share=0.8)
    search = search_over(bench)
    assert search.run([of("quick", "evaluation")]) == plan_of("quick")
    (row,) = search.tried
    assert (row.technique, row.kept, row.parts) == ("quick", True, ("evaluation",))
    assert reason_words(row.reason) == "a gain over whole stretches of the run, evaluation included"


def test_an_early_start_is_tried_before_what_takes_long_stretches() -> None:
    """A run of 21 s had lost half of its steps' time, but not the second that its start could lose."""
    early, late = (Candidate(outside(name, "start", scope="process"), [{}]) for name in ("early", "late"))
    live, others = divided([candidate("fast"), early, fresh("threads"), late])
    assert ([one.technique.name for one in live], len(others)) == (["fast", "early"], 2)
    assert divided([fresh("threads"), late])[0] == []


@pytest.mark.parametrize("share", [0.8, 0.1, None])
def test_it_joins_what_was_found_for_steps(share: float | None) -> None:
    bench = ScriptedBench({"quick": 0.6, "fast": 0.7, "slow": 1.2}, outside=EVALUATION, share=share)
    search = search_over(bench)
    found = search.run([candidate("fast"), of("quick", "evaluation"), candidate("slow")])
    assert found == plan_of("fast", "quick")
    assert search.found == search.plan == found


def test_what_takes_a_large_share_is_compared_first_and_by_itself() -> None:
    bench = ScriptedBench({"quick": 0.6, "fast": 0.7}, outside=EVALUATION, share=0.8)
    search_over(bench).run([candidate("fast"), of("quick", "evaluation")])
    assert bench.asked[0] == (BASELINE, plan_of("quick"))


def test_what_takes_a_small_one_last_and_in_combination() -> None:
    bench = ScriptedBench({"quick": 0.95, "fast": 0.7}, outside=EVALUATION, share=0.1)
    search_over(bench).run([of("quick", "evaluation"), candidate("fast")])
    assert bench.asked[-1] == (plan_of("fast"), plan_of("fast", "quick"))


@pytest.mark.parametrize(
    ("faster", "order"), [(0.3, ["fast", "quick", "threads"]), (0.9, ["fast", "threads", "quick"])]
)
def test_what_takes_a_larger_share_of_faster_steps_comes_before_fresh_processes(
    faster: float, order: list[str]
) -> None:
    """An evaluation of a tenth of the run takes a quarter of it where a step takes 0.3 of its time."""
    bench = ScriptedBench({"fast": faster, "quick": 0.8, "threads": 0.9}, outside=EVALUATION, share=0.1)
    search = search_over(bench)
    found = search.run([candidate("fast"), of("quick", "evaluation"), fresh("threads")])
    assert found == plan_of("fast", "threads", "quick")
    rows = [row for row in search.tried if not row.ablation]
    assert [row.technique for row in rows] == order
    assert rows[order.index("quick")].against == plan_of(*order[: order.index("quick")])


def test_the_largest_share_comes_first() -> None:
    bench = ScriptedBench({"quick": 0.9, "later": 0.9}, outside=BOTH)
    search_over(bench).run([of("quick", "evaluation", share=0.1), of("later", "saving", share=0.2)])
    assert [b for _, b in bench.asked] == [plan_of("later"), plan_of("later", "quick")]


class SlowBench(ScriptedBench):
    """Each comparison of steps takes a minute at least; none needs the deadline's clock."""

    of_stretches = 0.0

    def foreseen(self, a: Plan, b: Plan) -> float:
        return self.of_stretches if "quick" in b.techniques else 60.0


@pytest.mark.parametrize(
    ("minutes", "share", "stretches", "first"),
    [
        (3, 0.2, 0.0, "fast"),
        (1, 0.2, 0.0, "quick"),
        (1, 0.2, 11.0, "quick"),
        (1, 0.2, 13.0, "fast"),
        (1, 0.3, 20.0, "quick"),
        (3, 0.3, 59.0, "quick"),
    ],
)
def test_where_there_is_no_time_for_all_steps_a_fifth_of_the_run_comes_first(
    minutes: int, share: float, stretches: float, first: str
) -> None:
    """A latent SDE lost a quarter to garbage; bf16 and compile took the time there was, at 1.1 s a step. But
    evaluations that took 15% of a ResNet's run took 66 s of the 100 that there were, and gained nothing.
    """
    bench = SlowBench({"fast": 0.9, "late": 0.9, "quick": 0.8}, outside=EVALUATION, share=share)
    bench.of_stretches = stretches
    search_over(bench, Deadline(60.0 * minutes + 1)).run(
        [candidate("fast"), candidate("late"), of("quick", "evaluation")]
    )
    assert bench.asked[0] == (BASELINE, plan_of(first))


@pytest.mark.parametrize("share", [0.009, 0.0])
def test_what_can_give_no_percent_is_not_compared(share: float) -> None:
    bench = ScriptedBench({"quick": 0.5}, outside=EVALUATION, share=share)
    search = search_over(bench)
    assert search.run([of("quick", "evaluation")]) == BASELINE
    assert bench.asked == []
    assert why_not(search) == {
        "quick": f"evaluation takes {share:.1%} of a run at most, so it cannot gain more"
    }


def test_steps_alone_look_for_nothing() -> None:
    bench = ScriptedBench({"fast": 0.7})
    search_over(bench).run([candidate("fast")])
    assert bench.sought == []


# ---- what does not occur
@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        (Unseen("evaluation", 40.0), "no evaluation was seen within 40 s"),
        (Unseen("evaluation", 40.0, 1), "one evaluation was seen within 40 s, and two are needed"),
        (Unseen("evaluation", 40.0, 3), "3 were seen within 40 s, and more are needed"),
        (
            Unseen("evaluation", 40.0, 1, ended=True),
            "one evaluation was seen between the script's first and last step, and two are needed",
        ),
        (
            Unseen("evaluation", 0.0),
            "there was not enough time to see one evaluation and the next",
        ),
        (Unseen("evaluation", 5.0, failure="killed"), "watching for the evaluation failed: killed"),
        (Unseen("saving", 40.0), "no end of an epoch was seen within 40 s"),
    ],
)
def test_what_was_not_seen_is_left_out_by_name(unseen: Unseen, said: str) -> None:
    bench = ScriptedBench({"quick": 0.5, "fast": 0.7}, outside=EVALUATION, unseen={"evaluation": unseen})
    search = search_over(bench)
    assert search.run([of("quick", "evaluation"), candidate("fast")]) == plan_of("fast")
    assert why_not(search) == {"quick": said}


class Named(Deadline):
    """Names budgets."""

    def enough_for(self, plan: Plan, seconds: float) -> int | None:
        return int(1000 + seconds)

    def enough_to_have(self, seconds: float) -> float:
        return 500 + seconds


NEVER = Unseen("evaluation", 0.0, needed=10.0)
ONCE = Unseen("evaluation", 20.0, 1, needed=10.0)


@pytest.mark.parametrize(("unseen", "more"), [(NEVER, " or more"), (ONCE, "")])
def test_the_budget_that_would_show_it_is_named(unseen: Unseen, more: str) -> None:
    """To look, with a margin, and to compare. How long something takes that was never seen is not known."""
    bench = ScriptedBench({"quick": 0.5}, outside=EVALUATION, unseen={"evaluation": unseen})
    search = search_over(bench, Named(100.0))
    search.run([of("quick", "evaluation")])
    assert why_not(search)["quick"].endswith(f"; --budget 1011{more} would be enough")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("share", "named"), [(0.9, 1011), (None, 1011), (0.03, 1600)])
def test_so_much_that_its_share_of_the_search_is_enough_to_look(share: float | None, named: int) -> None:
    """Of a part that takes 3% of a run, a hundredth of the search is for looking: 11 s are it of 1100 s."""
    bench = ScriptedBench({"quick": 0.5}, outside=EVALUATION, unseen={"evaluation": NEVER})
    search = search_over(bench, Named(100.0))
    search.run([of("quick", "evaluation", share=share)])
    assert f"--budget {named} " in why_not(search)["quick"]


@pytest.mark.attack("truth")
def test_no_budget_is_named_that_a_small_part_is_not_worth() -> None:
    """0.4% of the search's time is for looking: with that, 11 s of it would take a budget of 3,800 s."""
    bench = ScriptedBench({"quick": 0.5}, outside=EVALUATION, unseen={"evaluation": NEVER})
    search = search_over(bench, Named(100.0))
    search.run([of("quick", "evaluation", share=0.012)])
    words = "evaluation takes about 1.2% of a run, too little to wait for one evaluation and the next"
    assert why_not(search) == {"quick": words}


@pytest.mark.attack("truth")
def test_what_is_not_worth_a_look_takes_no_part_in_the_next_budget() -> None:
    """Nobody will wait for it."""
    unseen = {"evaluation": NEVER, "saving": replace(NEVER, part="saving")}
    bench = ScriptedBench({"quick": 0.5, "later": 0.5}, outside=BOTH, unseen=unseen)
    search = search_over(bench, Named(100.0))
    search.run([of("quick", "evaluation", share=0.012), of("later", "saving", share=0.9)])
    assert why_not(search)["quick"].endswith("too little to wait for one evaluation and the next")
    assert "--budget 1011 " in why_not(search)["later"]


@pytest.mark.attack("truth")
def test_the_rest_of_the_search_is_in_it() -> None:
    """It is looked for first, and compared when steps have been."""
    now = 0.0

    class Spending(ScriptedBench):
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            nonlocal now
            now += 400.0
            return super().compare(a, b, seconds)

    class Left(Named):
        def enough_for(self, plan: Plan, seconds: float) -> int | None:
            return int(self.spent + seconds)

    bench = Spending({"quick": 0.5, "fast": 0.7}, outside=EVALUATION, unseen={"evaluation": NEVER})
    search = search_over(bench, Left(10_000.0, clock=lambda: now))
    search.run([of("quick", "evaluation"), candidate("fast"), candidate("slow")])
    assert f"--budget {now + 11:.0f} " in why_not(search)["quick"]


@pytest.mark.attack("truth")
def test_what_is_left_out_before_it_would_be_compared_first() -> None:
    """Under the budget that is named for the second, there is time for the first, too, and it comes first."""
    bench = Slow({"quick": 0.5, "later": 0.5}, outside=BOTH, share=0.8)
    search = search_over(bench, Named(40.0))
    search.run([of("quick", "evaluation"), of("later", "saving")])
    budgets = [row.reasons[0].budget for row in search.comparisons.left_out]
    assert budgets == [1050, 1100]


class Slow(ScriptedBench):
    """A comparison takes at least so long."""

    def foreseen(self, a: Plan, b: Plan) -> float:
        return 50.0 if self._parts(a, b) else 0.0


def test_what_takes_longer_than_there_is_time_is_not_begun() -> None:
    bench = Slow({"quick": 0.5}, outside=EVALUATION, share=0.8)
    search = search_over(bench, Named(40.0))
    assert search.run([of("quick", "evaluation")]) == BASELINE
    assert bench.asked == []
    assert why_not(search) == {
        "quick": "comparing whole stretches of the run, evaluation included, takes longer than the time "
        "that was left; --budget 1050 would be enough"
    }


class Expensive(Deadline):
    """To check and confirm a plan with this technique takes all but ten seconds of what is left."""

    def left_with(self, plan: Plan) -> float:
        return 10.0 if "quick" in plan.techniques else self.left


def test_nothing_is_begun_that_could_not_be_confirmed_afterwards() -> None:
    bench = Slow({"quick": 0.5}, outside=EVALUATION, share=0.8)
    search = search_over(bench, Expensive(1000.0))
    assert search.run([of("quick", "evaluation")]) == BASELINE
    assert bench.asked == []


class Granting(Expensive):
    """A budget that nobody named: it grows where it is asked to."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.asked: list[Plan] = []

    def leave_comparison(self, plan: Plan, seconds: float) -> bool:
        self.asked.append(plan)
        return True


@pytest.mark.parametrize(
    ("share", "found"),
    [
        pytest.param(0.1, {"quick", "fast"}, id="takes a third of the run by then"),
        pytest.param(0.02, {"fast"}, id="still takes little of it"),
    ],
)
def test_a_budget_grows_for_what_takes_a_good_share_by_then(share: float, found: set[str]) -> None:
    """An example's evaluation took 7% of an epoch, 14% of what its steps became, and was never compared."""
    bench = Slow({"quick": 0.8, "fast": 0.2}, outside=EVALUATION, share=share)
    left = Granting(1000.0)
    bounds = Bounds({"forward": 1.0}, 1.0, {"evaluation": share / (1 - share)})
    search = search_over(bench, left, bounds=bounds)
    plan = search.run([candidate("fast"), of("quick", "evaluation", share=share)])
    assert set(plan.techniques) == found
    assert [set(one.techniques) for one in left.asked] == ([{"quick", "fast"}] if "quick" in found else [])


class SeenLater(Slow):
    """What was not seen in a first look is seen in a second, or ``never``."""

    def __init__(self, needed: float, share: float, never: bool = False) -> None:
        super().__init__({"quick": 0.8, "fast": 0.2}, outside=EVALUATION, share=share)
        self._needed = needed
        self._never = never

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        found = super().seek(a, b, seconds)
        first = self._never or len(self.sought) == 1
        return Unseen("evaluation", seconds, 1, needed=self._needed) if first else found


@pytest.mark.parametrize(
    ("needed", "share", "alone", "looks"),
    [
        pytest.param(20.0, 0.1, False, [10.0, 22.0], id="in as much of the time as it takes of the run"),
        pytest.param(20.0, 0.02, False, [2 / 3], id="it still takes little of it"),
        pytest.param(40.0, 0.1, False, [10.0, 44.0], id="last, in half of the time"),
        pytest.param(60.0, 0.1, False, [10.0], id="that takes too long"),
        pytest.param(20.0, 0.1, True, [10.0, 22.0], id="after what needs fresh processes"),
    ],
)
def test_what_was_not_seen_is_looked_for_again_once_it_takes_a_good_share(
    needed: float, share: float, alone: bool, looks: list[float]
) -> None:
    """A tutorial's evaluation took 12% of an epoch, and a quarter once its samples were in memory."""
    bench = SeenLater(needed, share)
    bounds = Bounds({"forward": 1.0}, 1.0, {"evaluation": share / (1 - share)})
    search = search_over(bench, Granting(100.0), bounds=bounds)
    of_steps = fresh("fast") if alone else candidate("fast")
    plan = search.run([of_steps, of("quick", "evaluation", share=share)])
    assert [seconds for _, seconds in bench.sought] == pytest.approx(looks, rel=0.05)
    assert set(plan.techniques) == ({"fast", "quick"} if len(looks) == 2 else {"fast"})
    assert ("quick" in why_not(search)) == (len(looks) == 1)


def test_a_second_look_that_does_not_see_it_either_says_how_long_it_was() -> None:
    bench = SeenLater(20.0, 0.1, never=True)
    bounds = Bounds({"forward": 1.0}, 1.0, {"evaluation": 0.1 / 0.9})
    search = search_over(bench, Granting(100.0), bounds=bounds)
    assert search.run([candidate("fast"), of("quick", "evaluation", share=0.1)]) == plan_of("fast")
    assert why_not(search)["quick"].startswith("one evaluation was seen within 22 s")


class Watched(ScriptedBench):
    """Notes the seconds that comparisons were granted."""

    def __init__(self, **more: Any) -> None:
        super().__init__({"quick": 0.9, "fast": 0.7}, outside=EVALUATION, **more)
        self.granted: list[float] = []

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self.granted.append(seconds)
        return super().compare(a, b, seconds)


@pytest.mark.parametrize(("share", "sought"), [(0.12, 10.0), (0.06, 4.0), (0.04, 4.0 / 3)])
def test_what_may_become_a_good_share_is_looked_for_as_long_as_a_short_epoch_takes(
    share: float, sought: float
) -> None:
    bench = Watched(share=share)
    search_over(bench, Deadline(100.0, clock=lambda: 0.0)).run([of("quick", "evaluation", share=share)])
    assert [seconds for _, seconds in bench.sought] == pytest.approx([sought])


@pytest.mark.parametrize(("share", "sought"), [(None, 10.0), (0.6, 20.0)])
def test_time_goes_where_the_run_goes(share: float | None, sought: float) -> None:
    """A tenth for what may not occur at all; otherwise its share, and a third of that to look."""
    bench = Watched(share=0.6)
    search_over(bench, Deadline(100.0, clock=lambda: 0.0)).run(
        [of("quick", "evaluation", share=share), candidate("fast")]
    )
    assert [seconds for _, seconds in bench.sought] == pytest.approx([sought])
    assert bench.granted[0] == pytest.approx(60.0)


def test_a_loss_over_whole_stretches_is_not_kept() -> None:
    search = search_over(ScriptedBench({"quick": 1.2}, outside=EVALUATION, share=0.8))
    assert search.run([of("quick", "evaluation")]) == BASELINE
    assert reason_words(search.tried[0].reason) == (
        "slower over whole stretches of the run, evaluation included"
    )


def test_what_excludes_each_other_is_not_joined() -> None:
    bench = ScriptedBench({"quick": 0.6, "fast": 0.7}, outside=EVALUATION, share=0.8)
    rival = replace(candidate("fast", conflicts=["quick"]))
    search = search_over(bench)
    assert search.run([of("quick", "evaluation"), rival]) == plan_of("fast")
    (row,) = search.comparisons.left_out
    assert (row.technique, row.reasons[0].code) == ("quick", "excluded")


def test_while_steps_are_searched_the_plan_holds_both() -> None:
    """The end of the budget is set aside for all that was found."""
    seen: list[Plan] = []

    class Looking(ScriptedBench):
        def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
            seen.append(search.plan)
            return super().compare(a, b, seconds)

    bench = Looking({"quick": 0.6, "fast": 0.7, "slow": 1.2}, outside=EVALUATION, share=0.8)
    search = search_over(bench)
    search.run([candidate("fast"), of("quick", "evaluation"), candidate("slow")])
    assert seen == [BASELINE, plan_of("quick"), plan_of("fast", "quick")]


def test_without_any_time_no_look_is_taken() -> None:
    bench = ScriptedBench({"quick": 0.6}, outside=EVALUATION)
    search = search_over(bench, Deadline(0.0, clock=lambda: 0.0))
    assert search.run([of("quick", "evaluation")]) == BASELINE
    assert bench.sought == []
    assert why_not(search) == {"quick": "the budget ended first"}


def test_other_settings_are_tried_as_well() -> None:
    class ByCount(ScriptedBench):
        def factor(self, plan: Plan) -> float:
            return {None: 1.0, 1: 0.9, 2: 0.7}[plan.techniques.get("quick", {}).get("count")]  # type: ignore[index]

    bench = ByCount({}, outside=EVALUATION, share=0.8)
    settings: list[Mapping[str, int]] = [{"count": 1}, {"count": 2}]
    search = search_over(bench)
    found = search.run([Candidate(outside("quick", "evaluation"), settings)])
    assert found == Plan({"quick": {"count": 2}})
    assert len(bench.sought) == 1


def test_refused_rows_are_told_with_the_rest() -> None:
    why = WhyNot("small part", parts=("first batches", "epoch turns"), share=0.0042)
    assert why_not_words(Refused("x", (why,)).reasons[0]) == (
        "first batches and epoch turns take 0.4% of a run at most, so it cannot gain more"
    )


# ---- the start
def test_what_shortens_the_start_joins_the_rest_and_is_judged_once() -> None:
    """It happens once in a run, so nothing looks for more; and the start is the same in any combination."""
    effects = {"early": 0.6, "quick": 0.6, "fast": 0.7, "faster": 0.7}
    bench = ScriptedBench(effects, outside=EVALUATION, share=0.1)
    search = search_over(bench)
    others = [of("quick", "evaluation"), candidate("faster")]
    found = search.run([candidate("fast"), of("early", "start"), *others])
    assert found == plan_of("fast", "early", "faster", "quick")
    assert [one for one, _ in bench.sought] == [plan_of("quick")]
    assert [row.technique for row in search.tried].count("early") == 1


def test_the_last_for_steps_is_not_judged_again_for_a_start_that_came_after_it() -> None:
    bench = ScriptedBench({"early": 0.6, "fast": 0.7})
    search = search_over(bench)
    assert search.run([candidate("fast"), of("early", "start")]) == plan_of("fast", "early")
    assert [row.technique for row in search.tried] == ["fast", "early"]


def test_a_shorter_start_alone_is_nothing_that_a_search_finds() -> None:
    bench = ScriptedBench({"early": 0.6, "slow": 1.2})
    search = search_over(bench)
    assert search.run([of("early", "start"), candidate("slow")]) == BASELINE
    assert [row.technique for row in search.tried] == ["slow"], "trying a start may take a minute"
    assert why_not(search) == {
        "early": "it shortens only the start, and nothing else was found: name it by --use, best with malloc"
    }


@pytest.mark.parametrize(("effect", "tried"), [(1.0, ["steady"]), (0.7, ["steady", "early"])])
def test_where_all_else_is_on_from_the_start_that_is_judged_first(effect: float, tried: list[str]) -> None:
    search = search_over(ScriptedBench({"early": 0.6, "steady": effect}))
    search.run([of("early", "start"), candidate("steady", steadies=True)])
    assert [row.technique for row in search.tried] == tried
    assert search.found == (plan_of(*tried) if effect < 1 else BASELINE)


def test_where_nothing_else_applies_it_is_not_tried() -> None:
    search = search_over(ScriptedBench({"early": 0.6}))
    assert search.run([of("early", "start")]) == BASELINE
    assert search.tried == []
    assert list(why_not(search)) == ["early"]


def test_nor_where_what_else_applies_was_not_seen() -> None:
    unseen = {"evaluation": Unseen("evaluation", 10.0)}
    search = search_over(ScriptedBench({"early": 0.6}, outside=EVALUATION, unseen=unseen))
    assert search.run([of("quick", "evaluation"), of("early", "start")]) == BASELINE
    assert search.tried == []
    assert list(why_not(search)) == ["quick", "early"]


def test_a_start_that_takes_longer_is_not_kept() -> None:
    bench = ScriptedBench({"early": 1.1, "fast": 0.7})
    search = search_over(bench)
    assert search.run([of("early", "start"), candidate("fast")]) == plan_of("fast")


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        (None, ["fast", "other", "early"]),
        (100, ["fast", "early", "other"]),
        (2000, ["fast", "other", "early"]),
    ],
)
def test_a_start_that_is_known_to_take_much_of_a_run_comes_early(steps: int | None, order: list[str]) -> None:
    """Of 11 s a recommender's run spent 5 s on its start, and nothing that shortens it was ever reached."""
    bench = ScriptedBench({"early": 0.6, "fast": 0.7, "other": 1.0}, outside=START)
    search = search_over(bench, length=ScriptLength(steps), bounds=Bounds(start=50.0))
    assert search.run([candidate("fast"), candidate("other"), of("early", "start")]) == plan_of(
        "fast", "early"
    )
    assert [row.technique for row in search.tried] == order


@pytest.mark.parametrize(
    ("other", "order"), [(fresh("other"), ["early", "other"]), (candidate("other"), ["other"])]
)
def test_less_of_a_run_is_enough_before_what_needs_processes(other: Candidate, order: list[str]) -> None:
    """Threads and processes took the budget that was left, and a start of 13% of the run stayed as it was."""
    bench = ScriptedBench({"early": 0.6, "fast": 0.7, "other": 1.0}, outside=START)
    search = search_over(bench, length=ScriptLength(450), bounds=Bounds(start=40.0))
    search.run([candidate("fast"), other, fresh("last"), of("early", "start")])
    assert [row.technique for row in search.tried] == [
        "fast",
        *order,
        *(["early"] if len(order) == 1 else []),
        "last",
    ]


def test_it_waits_until_something_else_was_found() -> None:
    bench = ScriptedBench({"early": 0.6, "idle": 1.0, "fast": 0.7, "slow": 1.2}, outside=START)
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    steps = [candidate("idle"), candidate("fast"), candidate("slow")]
    assert search.run([of("early", "start"), *steps]) == plan_of("fast", "early")
    assert [row.technique for row in search.tried] == ["idle", "fast", "early", "slow"]


def test_a_start_that_made_room_for_something_comes_back_if_that_goes() -> None:
    """Compiling gained by itself, and nothing any more once something else was found."""
    together = {frozenset(("fast", "rival", "other")): 0.355}
    bench = ScriptedBench(
        {"early": 0.6, "fast": 0.7, "rival": 0.8, "other": 0.5}, together=together, outside=START
    )
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    rival = candidate("rival", conflicts=("early",))
    found = search.run([candidate("fast"), rival, candidate("other"), of("early", "start")])
    assert found == plan_of("fast", "other", "early")
    assert "early" not in why_not(search)


@pytest.mark.parametrize("length", [100, None])
def test_a_start_that_was_excluded_is_tried_if_that_goes(length: int | None) -> None:
    together = {frozenset(("fast", "rival", "other")): 0.355}
    bench = ScriptedBench(
        {"early": 0.6, "fast": 0.7, "rival": 0.8, "other": 0.5}, together=together, outside=START
    )
    search = search_over(bench, length=ScriptLength(length), bounds=Bounds(start=50.0))
    rival = candidate("rival", conflicts=("early",))
    found = search.run([rival, candidate("fast"), candidate("other"), of("early", "start")])
    assert found == plan_of("fast", "other", "early")
    assert "early" not in why_not(search)


def test_a_start_that_made_room_for_good_says_so() -> None:
    bench = ScriptedBench({"early": 0.6, "fast": 0.7, "rival": 0.5}, outside=START)
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    found = search.run([candidate("fast"), candidate("rival", conflicts=("early",)), of("early", "start")])
    assert found == plan_of("fast", "rival")
    assert why_not(search) == {"early": "early and rival exclude each other: they are rivals"}


def test_what_lost_against_a_plan_without_the_start_may_be_tried_again() -> None:
    bench = ScriptedBench(
        {"early": 0.6, "fast": 0.7, "rival": 0.97, "other": 0.5}, spread=0.03, outside=START
    )
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    rival = candidate("rival", conflicts=("early",))
    search.run([candidate("fast"), rival, candidate("other"), of("early", "start")])
    assert [row.technique for row in search.tried].count("rival") == 2


def test_what_was_tried_along_with_another_start_is_not_tried_again() -> None:
    bench = ScriptedBench({"early": 0.6, "along": 0.9, "fast": 0.7}, outside=START)
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    early = replace(of("early", "start"), together_with=[plan_of("along")])
    found = search.run([candidate("fast"), candidate("idle"), early, of("along", "start")])
    assert found == plan_of("fast", "early", "along")
    assert [row.technique for row in search.tried] == ["fast", "early", "idle"]
    assert "along" not in {*why_not(search), *search.comparisons.untried}


@pytest.mark.parametrize(("effect", "found"), [(0.5, ("fast", "rival")), (1.0, ("fast", "early"))])
def test_a_shorter_start_keeps_nothing_out_that_shortens_steps(effect: float, found: tuple[str, ...]) -> None:
    bench = ScriptedBench({"early": 0.6, "fast": 0.7, "rival": effect}, outside=START)
    search = search_over(bench, length=ScriptLength(100), bounds=Bounds(start=50.0))
    rival = candidate("rival", conflicts=("early",))
    assert search.run([candidate("fast"), rival, of("early", "start")]) == plan_of(*found)
    assert [row.technique for row in search.tried] == ["fast", "early", "rival", *_TWICE[effect]]
    compared = next(row.against for row in search.tried if row.technique == "rival")
    assert compared == plan_of("fast"), "the start is not in the way"


_TWICE = {0.5: ["fast"], 1.0: []}  # what was kept for steps is judged again in combination with another


@pytest.mark.parametrize("early", [1.0, 0.6])
def test_what_steadies_comes_back_with_a_start_that_joined_after_it_was_judged(early: float) -> None:
    """A start that is shorter leaves a smaller heap, which an allocator gives back after each step."""
    search = search_over(ScriptedBench({"early": early, "a": 0.8, "b": 0.8}))
    joint = [candidate(name, jointly=True) for name in ("a", "b")]
    found = search.run([candidate("steady", steadies=True), of("early", "start"), *joint])
    assert [row.kept for row in search.tried if row.technique == "steady"] == [False]
    assert found == (plan_of("a", "b", "early", "steady") if early < 1 else plan_of("a", "b"))
    told = {"steady": "kept: it was measured before the start was shortened, which may change what it gains"}
    assert why_not(search) == (told if early < 1 else {})


def test_what_steadies_but_was_slower_does_not_come_back() -> None:
    search = search_over(ScriptedBench({"early": 0.6, "a": 0.8, "b": 0.8, "steady": 1.1}))
    joint = [candidate(name, jointly=True) for name in ("a", "b")]
    found = search.run([candidate("steady", steadies=True), of("early", "start"), *joint])
    assert found == plan_of("a", "b", "early")
