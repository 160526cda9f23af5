"""What a search does around a technique that every later process pays for, as torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Seen, Trial, Unseen
from hasten.report.reasons import reason_words
from hasten.tuning.candidate import Candidate
from hasten.tuning.comparisons import Comparisons
from hasten.tuning.deadline import Deadline
from hasten.tuning.search import Search
from tests.bench.made_up import candidate, technique
from tests.tuning.searches import ENDLESS, search_over

FIRST, SECOND = {"mode": "first"}, {"mode": "second"}


def with_modes(slow: bool) -> Candidate:
    of = type("compile", (technique("compile"),), {"slow_to_set_up": slow})
    return Candidate(of, [FIRST, SECOND])


class ByMode:
    """``modes`` gives the factor of each mode on a step's time, ``others`` those of other techniques. These
    save the same time in any combination.
    """

    def __init__(self, modes: dict[str, float], others: dict[str, float] | None = None) -> None:
        self._modes, self._others = modes, others or {}

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        ratio = self._time(b) / self._time(a)
        bench = ScriptedBench({"x": ratio}, step_seconds=0.02 * self._time(a))
        found = bench.compare(BASELINE, Plan({"x": {}}), seconds)
        return Trial(
            a, b, "live", found.log_ratios, found.ratio, found.step_seconds_a, found.step_seconds_b, 1.0
        )

    def _time(self, plan: Plan) -> float:
        saved = sum(1 - self._others[name] for name in plan.techniques if name in self._others)
        mode = plan.techniques.get("compile")
        return (self._modes[str(mode["mode"])] if mode is not None else 1.0) - saved

    def method(self, a: Plan, b: Plan) -> str:
        return "live"

    def foreseen(self, a: Plan, b: Plan) -> float:
        return 0.0

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        raise NotImplementedError


class Asked(Deadline):
    """Remembers for which plan an end was left, at each look at the time."""

    def __init__(self) -> None:
        super().__init__(ENDLESS)
        self.found: Callable[[], Plan] = lambda: BASELINE
        self.left_for: list[Plan] = []

    @property
    def left(self) -> float:
        self.left_for.append(self.found())
        return super().left


@pytest.mark.parametrize("slow", [False, True])
def test_other_settings_leave_the_time_that_the_end_of_the_adopted_ones_takes(slow: bool) -> None:
    """Else a tune that had found 2.7x ended without time to check it."""
    deadline, began_with = Asked(), []
    comparisons = Comparisons(
        ByMode({"first": 0.5, "second": 0.8}),
        deadline,
        lambda *_: began_with.append(deadline.left_for[-1]),
        lambda _: None,
    )
    search = Search(comparisons)
    deadline.found = lambda: search.plan
    assert search.run([with_modes(slow)]) == Plan({"compile": FIRST})
    assert began_with == [BASELINE, Plan({"compile": FIRST})]


def test_what_gains_with_it_comes_before_its_other_settings() -> None:
    """``fused`` saves 0.8% of a plain step, too little to tell, and 4% of a compiled one."""
    search = search_over(ByMode({"first": 0.2, "second": 0.15}, {"fused": 0.992}))
    plan = search.run([candidate("fused"), with_modes(slow=True)])
    assert plan == Plan({"compile": SECOND, "fused": {}})
    assert [row.technique for row in search.tried if not row.ablation] == [
        "fused",
        "compile",
        "fused",
        "compile",
    ]
    assert reason_words(search.tried[-1].reason) == "a gain over the previous settings"


def test_what_would_save_little_of_a_faster_step_is_not_tried_again() -> None:
    search = search_over(ByMode({"first": 0.5, "second": 0.6}, {"fused": 0.999}))
    assert search.run([candidate("fused"), with_modes(slow=True)]) == Plan({"compile": FIRST})
    assert [row.technique for row in search.tried] == ["fused", "compile", "compile"]


def test_other_settings_whose_end_does_not_fit_are_not_taken() -> None:
    class Short(Deadline):
        def affords_end(self, plan: Plan) -> bool:
            return plan.techniques["compile"] == FIRST

        def leave_end(self, plan: Plan) -> bool:
            return self.affords_end(plan)

        def enough_for(self, plan: Plan, seconds: float) -> int:
            return 700

    search = search_over(ByMode({"first": 0.5, "second": 0.3}), Short(ENDLESS))
    assert search.run([with_modes(slow=True)]) == Plan({"compile": FIRST})
    assert search.tried[-1].reason.decision == "too late"
    assert search.tried[-1].reason.budget == 700


def test_what_lost_before_another_won_is_not_tried_again() -> None:
    search = search_over(ByMode({"first": 1.2, "second": 0.5}))
    assert search.run([with_modes(slow=True)]) == Plan({"compile": SECOND})
    assert [row.settings for row in search.tried] == [FIRST, SECOND]
