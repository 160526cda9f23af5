"""The comparisons of one search: what may still start, what was measured, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..bench.base import Bench
from ..bench.comparing.decisions import LARGE_BELOW, tells
from ..bench.comparing.statistics import combined
from ..inside.techniques.catalog import slow_to_set_up
from ..records.plan import BASELINE, Plan, Settings
from ..records.reasons import Reason, WhyNot
from ..records.result import Refused, Tried
from ..records.thresholds import CLEAR_BELOW
from ..records.trial import Ratio, Seen, Trial, Unseen
from .candidate import Candidate
from .paying import ScriptLength
from .reasons import reason_of, reason_together
from .time_left import TimeLeft

TOGETHER = "environment"  # name of the row for techniques tried together
_MARGIN = 1.1  # times the seconds until a part is seen: no two processes take the same time
_OUT_OF_PROPORTION = 3.0  # times the budget for all else: none is named to look for a small part so long

Notify = Callable[[Tried], None]
Announce = Callable[[str, Plan], None]


@dataclass(frozen=True)
class _PutOff:
    """A comparison put off: its ``row`` among what was left out, and the ``share`` of the search's time to
    watch.
    """

    row: Refused
    plan: Plan
    share: float


class Comparisons:
    """``tried`` holds a row for every comparison, in order; ``left_out`` settings and verdicts for which
    there was no time.
    """

    def __init__(
        self,
        bench: Bench,
        deadline: TimeLeft,
        announce: Announce,
        notify: Notify,
        length: ScriptLength | None = None,
    ) -> None:
        self._bench = bench
        self._length = length or ScriptLength()
        self._deadline = deadline
        self._announce = announce
        self._notify = notify
        self.tried: list[Tried] = []
        self.left_out: list[Refused] = []
        self.untried: dict[str, float | None] = {}  # what was left out whole, with the budget for it
        self._untried: dict[str, float] = {}  # the seconds that it would have taken
        self._put_off: list[_PutOff] = []
        self._found: dict[tuple[Plan, Plan], Ratio] = {}  # from all comparisons of the two so far
        self._wanted = 0.0  # extra seconds that would have been enough for all that was left out so far

    @property
    def seconds_left(self) -> float:
        return self._deadline.left

    @property
    def script_steps(self) -> int | None:
        """Of the whole script; None until anything shows them."""
        return self._length.steps

    def affords(self, a: Plan, b: Plan, first: bool = False, last: bool = False) -> bool:
        """Whether a comparison of the two fits into the time left, as far as is known; more may be granted
        where nothing was found. What comes ``first`` may take some of what is set aside for the tune's end;
        the ``last`` that may find something at all, all of it but for what its end needs at least.
        """
        needed, deadline = self._bench.foreseen(a, b), self._deadline
        set_aside = (first and needed <= deadline.left_for_first) or (
            last and needed <= deadline.with_reserve
        )
        if self._fits(needed) or set_aside:
            return True
        return self._is_worth_more() and self._deadline.search_on() and self._fits(needed)

    def _is_worth_more(self) -> bool:
        """Whether nothing was found so far, by comparisons that could have."""
        found = any(row.kept and row.method != "starts" for row in self.tried)
        return not found and tells([row.ratio for row in self.tried if row.ratio is not None])

    def _fits(self, seconds: float) -> bool:
        left = self._deadline.left
        return left > 0 and left >= seconds

    def has_time_for(self, candidates: Sequence[Candidate]) -> bool:
        """Whether the shortest comparisons of them all fit into the time left, as far as is known; what has
        something to gain only later comes after everything else.
        """
        at_once = (candidate for candidate in candidates if not candidate.technique.slow_to_show)
        return sum(map(self.takes, at_once)) <= self._deadline.left

    def takes(self, candidate: Candidate) -> float:
        """Seconds of its shortest comparison with the baseline, as far as is known."""
        return self._bench.foreseen(BASELINE, candidate.added_to(BASELINE, 0))

    def affords_stretches(self, a: Plan, b: Plan, grows: bool = False) -> bool:
        """The same over whole stretches: then ``b``'s confirmation is over stretches, too, and long.
        ``grows``: a budget that nobody named may grow for it.
        """
        needed = self._bench.foreseen(a, b)
        if self.affords(a, b) and self._deadline.left_with(b) >= needed:
            return True
        return grows and self._deadline.leave_comparison(b, needed)

    def judged(self, trial: Trial, kept: bool, whole: Plan) -> tuple[bool, Reason]:
        """Whether a winner is adopted, and why. ``whole``: the plan that would result. If its set-up takes
        too long to fit the end into the budget, it is left out, and the budget that would do is named. A
        slow set-up is paid in every process that follows, so its gain must be clear; for a large one a
        budget that nobody named grows.
        """
        reason = reason_of(trial, kept)
        if kept and _slow_to_set_up(trial) and trial.upper() >= CLEAR_BELOW:
            return False, replace(reason, decision="too small")
        large = trial.upper() < LARGE_BELOW
        fits = self._deadline.leave_end if large else self._deadline.affords_end
        if not kept or fits(whole):
            return kept, reason
        return False, replace(reason, decision="too late", budget=self._deadline.enough_for(whole, 0.0))

    def seek(self, name: str, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        """Find out where in a run two plans that differ outside of steps can be compared."""
        self._announce(name, a)
        return self._bench.seek(a, b, seconds)

    def budget_for(self, a: Plan, b: Plan) -> float | None:
        """The budget to compare the two and, before them, everything else that was left out; None
        if none can be named.
        """
        self._wanted += self._bench.foreseen(a, b)
        return self._deadline.enough_for(b, self._wanted)

    def compare(self, name: str, a: Plan, b: Plan, seconds: float) -> Trial:
        """Results of earlier comparisons of the same two plans count as well. What comes too late in a
        running training is compared in new ones, if there is time; otherwise the trial says so.
        """
        trial = self._compared(name, a, b, seconds)
        if trial.too_late and self.affords(a, b):
            return self._compared(name, a, b, max(0.0, seconds - trial.seconds))
        return trial

    def _compared(self, name: str, a: Plan, b: Plan, seconds: float) -> Trial:
        self._announce(name, a)
        trial = self._bench.compare(a, b, seconds)
        if trial.ratio is not None:
            before = self._found.get((a, b))
            ratio = trial.ratio if before is None else combined([before, trial.ratio])
            self._found[a, b] = ratio
            trial = replace(trial, ratio=ratio)
        return self._length.told_of(trial)

    def compare_along(self, name: str, a: Plan, b: Plan, seconds: float) -> Trial:
        """``b`` has the technique, and perhaps others that are tried along with it. Where one of these fails,
        the technique is compared with the rest of them.
        """
        while True:
            trial = self.compare(name, a, b, seconds)
            along = set(b.techniques) - {name, *a.techniques}
            failed = {one for one in along if _is_to_blame(one, trial.failure or "")}
            b = b.only(set(b.techniques) - failed)
            if not failed or not self.affords(a, b):
                return trial

    def leave_out(self, name: str, why: WhyNot) -> None:
        """Note why a technique was not tried."""
        self.left_out.append(Refused(name, (why,)))

    def leave_untried(self, name: str, a: Plan, b: Plan) -> None:
        """There was no time for it. The budget that would do is told when the search is over."""
        self.untried[name] = None
        self._untried[name] = self._bench.foreseen(a, b)

    def put_off(self, name: str, why: WhyNot, plan: Plan, share: float) -> None:
        """Leave out a part that was not seen in a ``share`` of the search's time. Only at the end of the
        search is it known what else that takes, and which budget would leave time for this, too.
        """
        self.leave_out(name, why)
        self._put_off.append(_PutOff(self.left_out[-1], plan, share))

    def look_again(self, name: str, share: float) -> bool:
        """Whether a part that was put off is seen now, in up to this ``share`` of the time left. Then it is
        put off no longer.
        """
        at = next((n for n, one in enumerate(self._put_off) if one.row.technique == name), None)
        if at is None:
            return False
        one = self._put_off[at]
        (why,) = one.row.reasons
        needed = why.unseen.needed if why.unseen is not None else None
        if needed is None or _MARGIN * needed > share * self.seconds_left:
            return False
        seen = self.seek(name, BASELINE, one.plan, _MARGIN * needed)
        row = self.left_out.index(one.row)
        if isinstance(seen, Unseen):
            self.left_out[row] = Refused(name, (replace(why, unseen=seen),))
            self._put_off[at] = replace(one, row=self.left_out[row])
            return False
        del self.left_out[row], self._put_off[at]
        return True

    def name_budgets(self, found: Plan) -> None:
        """For all that was put off: the budget to see, compare and confirm it with ``found``; for what was
        not tried, the budget for all of that.
        """
        self._wanted += sum(self._untried.values())
        for name in self.untried:
            self.untried[name] = self._deadline.enough_for(found, self._wanted)
        for one in self._put_off:
            (why,) = one.row.reasons
            if why.unseen is not None and why.unseen.needed is not None:
                why = self._in_time(why, found, one, _MARGIN * why.unseen.needed)
                self.left_out[self.left_out.index(one.row)] = Refused(one.row.technique, (why,))

    def _in_time(self, why: WhyNot, found: Plan, one: _PutOff, needed: float) -> WhyNot:
        """``why`` with the budget in which there are so many seconds to look, unless that is out of all
        proportion.
        """
        before = self._wanted
        self._wanted += needed
        to_compare = self.budget_for(found, Plan({**found.techniques, **one.plan.techniques}))
        to_look = self._deadline.enough_to_have(needed / one.share)
        if to_compare is None or to_look is None:
            return why
        if why.share and to_look > _OUT_OF_PROPORTION * to_compare:
            self._wanted = before
            return replace(why, code="not worth a look")
        return replace(why, budget=max(to_compare, to_look))

    def record(
        self, name: str, settings: Settings, trial: Trial, kept: bool, reason: Reason, ablation: bool = False
    ) -> None:
        """Add a row for one technique. ``kept``: the plan keeps it; ``ablation``: measured at the end, in
        combination with the rest of the plan.
        """
        if kept and trial.ratio is not None and trial.method != "starts":
            self._deadline.gained(1 / trial.ratio.high, [name], name in trial.a.techniques)
        self.add(
            Tried(
                technique=name,
                settings=settings,
                ratio=trial.ratio,
                against=trial.a,
                kept=kept,
                reason=reason,
                method=trial.method,
                setup_seconds=trial.setup_seconds,
                ablation=ablation,
                parts=trial.parts,
                against_seconds=trial.step_seconds_a,
                spent=trial.spent,
                earlier=trial.earlier,
            )
        )

    def record_together(self, trial: Trial, together: Plan, kept: bool, again: bool) -> None:
        """Add a row for techniques tried as one. ``again``: they will be tried again."""
        if kept and trial.ratio is not None:
            self._deadline.gained(1 / trial.ratio.high, together.techniques)
        row = Tried(
            technique=TOGETHER,
            settings={},
            ratio=trial.ratio,
            against=trial.a,
            kept=kept,
            reason=reason_together(trial, together, kept, again),
            method=trial.method,
            setup_seconds=trial.setup_seconds,
            together=together,
            spent=trial.spent,
            earlier=trial.earlier,
        )
        self.add(row)

    def add(self, row: Tried) -> None:
        """Add a row to what was tried, and report it."""
        self.tried.append(row)
        self._notify(row)


def _is_to_blame(technique: str, failure: str) -> bool:
    """Whether a trial failed because this one did not apply or had no effect."""
    return failure.startswith((f"{technique}: ", f"{technique} had no effect"))


def _slow_to_set_up(trial: Trial) -> bool:
    """Whether that is known of a technique which ``b`` has in addition."""
    return bool(slow_to_set_up(trial.b) - trial.a.techniques.keys())
