"""The search for a plan: a ladder, the most promising first, then ablation of what was kept.

Settings of a process that cost little if they do not help are tried first, together as one: pairs of fresh
processes are expensive. Only if they gain together is each measured alone. Nothing starts that would not fit
into the remaining budget, as far as known, or that cannot give much; what does not is named. It sees only a
bench, so tests drive it with a scripted one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..bench.comparing.decisions import ratio_if_gained
from ..inside.techniques.base import Technique
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import Exclusion, against
from ..records.plan import BASELINE, Plan
from ..records.reasons import WhyNot
from ..records.result import Tried
from .ablation import Ablation
from .bounds import Bounds
from .candidate import Candidate, rivals_of
from .comparisons import Comparisons
from .jointly import fitted, fitting_each_other, tried_together
from .other_settings import with_best_settings
from .outside_steps import divided, grown_large, large, seen_again, share_of_faster, too_long, weighed
from .starts import due_before, is_for_start, left_out_alone, with_room_for, with_starts

_LONGER = 2  # times as long as the first time, for a second try


class Search:
    """Finds a plan by comparisons, for each of which ``tried`` holds a row."""

    def __init__(self, comparisons: Comparisons, bounds: Bounds | None = None) -> None:
        self.comparisons = comparisons
        self._bounds = bounds or Bounds()
        self.found = BASELINE  # the plan so far
        self._by_itself = BASELINE  # what was found for other parts of a run
        self._steadying: set[str] = set()  # names of what is on from the start, before it has gained anything
        self._starts: list[Candidate] = []  # what shortens the start, and was not tried yet
        self._displaced: set[str] = set()  # of those, what made room for something else
        self._outside: list[Candidate] = []  # what is for other parts of a run than steps
        self._slow: list[Candidate] = []  # what is slow to set up: its other settings are tried last
        self._catalog: dict[str, type[Technique]] = dict(CATALOG)

    @property
    def tried(self) -> list[Tried]:
        return self.comparisons.tried

    def run(self, candidates: Sequence[Candidate]) -> Plan:
        """The plan found. ``candidates`` come in the order to try them, most promising first.

        What steadies the steps is on from the start, because everything else is measured better with it; it
        must earn its place at the end, together with the others. What speeds up other parts of a run is up to
        ``outside``, and is not measured again: the confirmation covers it.
        """
        self._catalog |= {candidate.technique.name: candidate.technique for candidate in candidates}
        outside = [candidate for candidate in candidates if candidate.outside_steps]
        candidates = [candidate for candidate in candidates if not candidate.outside_steps]
        steadying = [candidate for candidate in candidates if candidate.technique.steadies]
        joint = [c for c in candidates if c.technique.jointly and not c.technique.steadies]
        climbing = [c for c in candidates if not c.technique.steadies and c not in joint]
        self._outside = outside
        outside = self._tried_by_themselves(outside, [*climbing, *joint])
        self.found = BASELINE
        left = [candidate.technique.name for candidate in (*candidates, *outside)]
        if not self._by_itself and left_out_alone(self.comparisons, left, self._catalog):
            climbing = []
        starts = [one for one in climbing if is_for_start(one.technique.name, self._catalog)]
        self._starts = list(starts)
        self._steadying = {candidate.technique.name for candidate in steadying}
        for fitting in fitting_each_other(self.comparisons, BASELINE, steadying, self._catalog):
            self.found = self.found.adding(fitting.technique.name, fitting.options[0])
        live, fresh = divided(climbing)
        then = bool(joint) + len(steadying)
        adopted = self._climb(live, sum(candidate.weight for candidate in fresh) + then)
        outside = self._try_grown(outside)
        adopted += self._climb(fresh, then)
        self.found, singly = tried_together(
            self.comparisons, self.found, joint, 1 + len(steadying), self._catalog
        )
        before = {name for names in adopted for name in names}
        late = [n for c in joint if (n := c.technique.name) in self.found.techniques.keys() - before]
        for candidate in singly:
            names = self._try(candidate.only(candidate.options[:1]), self.comparisons.seconds_left)
            adopted += [names] if names else []
        ablation = Ablation(self.comparisons, {n[0] for n in adopted if len(n) == 1}, candidates)
        self.found = ablation.whole(self.found, adopted, late, [c.technique.name for c in steadying])
        late_settings = [c for c in (*joint, *self._slow) if c.technique.name in self.found.techniques]
        for candidate in (*steadying, *late_settings):
            self.found = with_best_settings(self.comparisons, self.found, candidate, self._catalog)
        self._join(self._try_grown(outside, last=True))
        self._starts += [one for one in starts if one.technique.name in self._displaced]
        settled = self.found
        self._try_starts()
        self.found = with_starts(self.comparisons, settled, self.found, steadying, self._catalog)
        self.comparisons.name_budgets(self.found)
        return self.found

    @property
    def plan(self) -> Plan:
        return self._with_rest(self.found)

    def _with_rest(self, found: Plan) -> Plan:
        missing = {n: how for n, how in self._by_itself.techniques.items() if n not in found.techniques}
        return Plan({**found.techniques, **missing})

    def _tried_by_themselves(
        self, outside: Sequence[Candidate], of_steps: Sequence[Candidate]
    ) -> list[Candidate]:
        """Try what speeds up a large part of the run against the baseline; returns what is left to try."""
        worth = weighed(self.comparisons, outside) if outside else []
        first = large(self.comparisons, worth, of_steps)
        for position, candidate in enumerate(first):
            share = (candidate.share or 0.0) / (len(first) - position)
            self._try_stretches(candidate, share * self.comparisons.seconds_left)
        self._by_itself, self.found = self.found, BASELINE
        return [candidate for candidate in worth if candidate not in first]

    def _try_grown(self, outside: Sequence[Candidate], last: bool = False) -> list[Candidate]:
        """Try what takes a good part of the run by now, in combination with what was found. It is set aside
        like what was tried by itself; returns what is left to try. What was not seen before is looked for
        again, for longer; where it comes ``last``, no other comparison of whole processes follows.
        """
        outside = [*outside, *seen_again(self.comparisons, self._outside, self._bounds.step, last)]
        steps, grown = self.found, grown_large(outside, self._bounds.step)
        for candidate in grown:
            share = share_of_faster(candidate.share or 0.0, self._bounds.step)
            self._try_stretches(candidate, share * self.comparisons.seconds_left, grown=True)
        found = self.found.only(set(self.found.techniques) - set(steps.techniques))
        self._by_itself, self.found = Plan({**self._by_itself.techniques, **found.techniques}), steps
        return [candidate for candidate in outside if candidate not in grown]

    def _join(self, outside: Sequence[Candidate]) -> None:
        """Add what was found alone to what was found for steps, and try the rest in combination."""
        for name, settings in self._by_itself.techniques.items():
            excluded = against(self.found, name, settings, self._catalog)
            if excluded is not None:
                self.comparisons.leave_out(name, WhyNot("excluded", str(excluded)))
            elif name not in self.found.techniques:
                self.found = self.found.adding(name, settings)
        self._by_itself = BASELINE
        for candidate in outside:
            self._try_stretches(candidate, self.comparisons.seconds_left)

    def _try_stretches(self, candidate: Candidate, seconds: float, grown: bool = False) -> None:
        fitting = self._fitted(self.found, candidate)
        if fitting is None:
            return
        if self.comparisons.affords_stretches(self.found, fitting.added_to(self.found, 0), grown):
            self._try(fitting, seconds)
        else:
            why = too_long(self.comparisons, self.found, fitting)
            self.comparisons.leave_out(candidate.technique.name, why)

    def _has_found_any(self) -> bool:
        return bool(self._by_itself) or not self._steadying.issuperset(self.found.techniques)

    def _try_starts(self, then: int = 0, alone: Candidate | None = None) -> None:
        """Those that are left, or one ``alone``, once something else was found. ``then``: comparisons that
        will follow; until there are none, what is excluded waits, as what excludes it may go.
        """
        for candidate in [one for one in self._starts if alone in (None, one)]:
            name = candidate.technique.name
            waits = isinstance(candidate.fitting(self.found, self._catalog), Exclusion)
            if then and (waits or not self._has_found_any()):
                continue
            self._starts.remove(candidate)
            if not (self.found or self._by_itself):
                self.comparisons.leave_out(name, WhyNot("only the start"))
            elif name not in self.found.techniques and (fitting := self._worth_trying(candidate)) is not None:
                self._try(fitting, self.comparisons.seconds_left / (1 + then / candidate.weight))

    def _climb(self, climbing: Sequence[Candidate], then: int) -> list[list[str]]:
        """Try one after another; returns what each adopted, except for starts: these are the same in any
        combination. What looked faster, or may be by now, is tried once more before anything expensive, or
        that excludes it. ``then``: comparisons that will follow.
        """
        adopted = []
        unsure: list[Candidate] = []
        for position, candidate in enumerate(climbing):
            to_do = sum(one.weight for one in climbing[position:]) + then
            if due_before(candidate, self.comparisons, self._bounds):
                self._try_starts(to_do)
            rivals = rivals_of(candidate, unsure, self.tried, self.found, self._catalog)
            due = rivals if candidate.technique.scope == "live" else unsure
            adopted += self._try_again(due, to_do)
            unsure = [one for one in unsure if one not in due]
            if candidate.technique.name in self.found.techniques:
                continue
            if is_for_start(candidate.technique.name, self._catalog):
                self._try_starts(to_do, candidate)
                continue
            if (fitting := self._worth_trying(candidate)) is None:
                continue
            adopted.append(self._try(fitting, self.comparisons.seconds_left * candidate.weight / to_do))
            if not adopted[-1] and candidate.is_cheap:
                unsure.append(fitting)
        adopted += self._try_again(unsure, then)
        return [names for names in adopted if names]

    def _worth_trying(self, candidate: Candidate) -> Candidate | None:
        """As ``_fitted``; None also where what it makes shorter has become a small part of the run."""
        if (small := self._bounds.why_not(candidate.technique)) is not None:
            self.comparisons.leave_out(candidate.technique.name, small)
            return None
        return self._fitted(with_room_for(candidate, self.found, self._catalog), candidate)

    def _try_again(self, unsure: Sequence[Candidate], then: int) -> list[list[str]]:
        """Try those for which there is a reason and that can still join the plan, as long as there is time;
        returns what each adopted.
        """
        adopted = []
        again = [candidate.for_second_try(self.tried, self.found) for candidate in unsure]
        due = [candidate for candidate in again if candidate is not None]
        for position, candidate in enumerate(due):
            plan = with_room_for(candidate, self.found, self._catalog)
            fitting = candidate.fitting(plan, self._catalog)
            if isinstance(fitting, Exclusion) or not self.comparisons.affords(
                plan, fitting.added_to(plan, 0)
            ):
                continue
            seconds = _LONGER * self.comparisons.seconds_left / (len(due) - position + then)
            adopted.append(self._try(fitting, seconds))
        return adopted

    def _fitted(self, plan: Plan, candidate: Candidate) -> Candidate | None:
        return fitted(self.comparisons, plan, candidate, self._catalog)

    def _try(self, candidate: Candidate, seconds: float) -> list[str]:
        """Adopt the best of the candidate's winning options, or the first if it is slow to set up: what gains
        with it comes before its other settings. Returns what is new in the plan.

        All that win are certain to gain; the best is the fastest as measured. Whose interval ends lowest
        would be chance: that of two pairs may be three times as wide as that of the next two.
        """
        before, plan = self.found, with_room_for(candidate, self.found, self._catalog)
        name, bounds, best = candidate.technique.name, self._bounds, math.inf
        for number, settings in enumerate(candidate.options):
            wanted = candidate.added_to(plan, number)
            if not self.comparisons.affords(plan, wanted, candidate.first and not number):
                self._leave_untried(candidate, number, plan)
                break
            trial = self.comparisons.compare_along(name, plan, wanted, seconds / len(candidate.options))
            if trial.too_late:
                self._leave_untried(candidate, number, plan)
                break
            value = ratio_if_gained(trial.ratio)
            won = value < best and not trial.never_pays
            kept, reason = self.comparisons.judged(trial, won, self._with_rest(trial.b))
            if kept:
                best, bounds = value, self._bounds.adopting(trial)
                self.found = trial.b  # what follows leaves the time that its end takes
            along = trial.b.only(set(trial.b.techniques) - {name, *plan.techniques})
            self.comparisons.record(name, settings, trial, kept, replace(reason, along=along))
            if kept and candidate.technique.slow_to_set_up:
                self._slow.append(candidate.only(candidate.options[number:]))
                break
        self._bounds = bounds
        self._displaced |= before.techniques.keys() - self.found.techniques.keys()
        return [one for one in self.found.techniques if one not in before.techniques]

    def _leave_untried(self, candidate: Candidate, number: int, plan: Plan) -> None:
        """For want of time: its settings from this one on."""
        name = candidate.technique.name
        if number:
            self.comparisons.leave_out(name, WhyNot("no time", untried=(*candidate.options[number:],)))
        else:
            self.comparisons.leave_untried(name, plan, candidate.added_to(plan, 0))
