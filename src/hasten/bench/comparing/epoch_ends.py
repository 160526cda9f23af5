"""What came between steps while plans were compared: steps with an evaluation or a new pass over a loader
took that much longer. They count in no comparison, but a whole run has them.

Which steps these are depends on the script, and is the same in each process of its training. So the process
that got furthest shows how often they occur, and all show how long each takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import NamedTuple

from ...inside.techniques.catalog import changing
from ...records.caution import Caution
from ...records.observation import Step
from ...records.plan import Plan
from .steps import Rhythm

_ALIKE = 1.02  # times: runs of one script whose lengths differ by no more have the same length
_FEW_STEPS = 2  # that processes may differ in, by what counts as their first and last
_FIRST_STEPS = 20  # models first called after these are not part of the same training
_PACE_STEPS = 10  # of an epoch, and of later ones, to tell how fast they are


class Kind(NamedTuple):
    """What fell into a step and into no regular one. An evaluation within an epoch and the turn of an epoch
    are two kinds, and both at once a third.
    """

    evaluated: bool = False
    restarts: int = 0  # loaders that started again


TURN = Kind(restarts=1)


@dataclass(frozen=True)
class EpochEnd:
    """``seconds``: how much longer its step took than the regular ones near it, under ``plan``, without
    techniques' set-up. ``first``: of its kind and process under all of that plan, whose techniques may have
    filled a cache in it. ``process``: a number; one process is slow or fast in all of its ends.
    """

    plan: Plan
    seconds: float
    first: bool = False
    kind: Kind = TURN
    process: int = 0


@dataclass
class _Course:
    """Where ends occurred in the script's steps, in one process, followed from ``begin`` to ``reach``.
    ``plain``: its steps are the script's, not those of a plan that trains differently. ``followed``: they
    were all seen, not reckoned.
    """

    begin: int
    plain: bool
    reach: int = 0
    followed: bool = True
    at: dict[Kind, list[int]] = field(default_factory=dict)  # steps before each one
    under: list[tuple[Plan, Kind]] = field(default_factory=list)  # in order
    first: dict[Plan, list[float]] = field(
        default_factory=dict
    )  # seconds of regular steps of the first epoch
    later: dict[Plan, list[float]] = field(default_factory=dict)

    @property
    def turned(self) -> float:
        """Steps until a loader first started again; infinite before."""
        return min((at[0] for kind, at in self.at.items() if kind.restarts), default=math.inf)


@dataclass
class EpochEnds:
    """Collects them over all workers of a tune. ``tails``: what came after a script's last step, in the form
    of ends. ``script_steps``: of the whole script, if a worker reached its end.
    """

    rhythm: Rhythm
    seen: list[EpochEnd] = field(default_factory=list)
    script_steps: int | None = None
    tails: list[EpochEnd] = field(default_factory=list)
    _another_model: int | None = None  # the step in which a new model appeared
    _lengths: list[int] = field(default_factory=list)  # reported by each process that reached the end
    _courses: list[_Course] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.script_steps = self.script_steps or self.rhythm.steps_in_all
        if self.rhythm.steps_in_all is not None and not self._lengths:
            self._lengths = [self.rhythm.steps_in_all]

    def cautions(self) -> list[Caution]:
        """Cautions about the script's course."""
        found = self._another_model
        return [Caution("another model", count=found)] if found is not None else []

    # ---- what processes report
    def note(self, plan: Plan, steps: Sequence[Step], before: int) -> None:
        """``steps`` that a process took under ``plan``, one after another, ``before`` others before
        them."""
        course = self._course(plan, before)
        course.reach = before + len(steps)
        for number, step in enumerate(steps, before + 1):
            if step.new_model and number > _FIRST_STEPS and self._another_model is None:
                self._another_model = number
        regular = [step.seconds for step in steps if self.rhythm.regular(step)]
        for position, step in enumerate(steps, before):
            if not position or self.rhythm.regular(step):
                continue
            kind = self._kind(step)
            course.at.setdefault(kind, []).append(position)
            first = self._is_first(plan, kind, course)
            course.under.append((plan, kind))
            if regular:
                seconds = max(0.0, step.seconds - step.setup_seconds - median(regular))
                self.seen.append(EpochEnd(plan, seconds, first, kind, len(self._courses)))
        for position, step in enumerate(steps, before):
            if position and self.rhythm.regular(step):
                ended = position >= (self.rhythm.epoch_steps or course.turned)
                (course.later if ended else course.first).setdefault(plan, []).append(step.seconds)

    def note_ends(self, plan: Plan, seconds: float, count: int, steps: int) -> None:
        """``count`` ends in the ``steps`` of one process, of ``seconds`` each on average, which together tell
        no more than one does.
        """
        course = self._course(plan, 0)
        course.reach, course.followed, each = steps + 1, False, steps / count
        course.at[TURN] = [round(each * (number + 1)) for number in range(count)]
        self.seen.append(EpochEnd(plan, seconds, count == 1, TURN, len(self._courses)))

    def script_ended(self, steps: int) -> None:
        """A worker's script ended after this many."""
        self.script_steps = steps
        self._lengths.append(steps)

    def note_tail(self, plan: Plan, rest: Step | None, noted: bool = True) -> None:
        """``rest``: what came after the last step, if known, for the process that was ``noted`` last,
        otherwise for one whose steps are unknown.
        """
        if rest is None:
            return
        course = self._course(plan, 0 if not noted else 1)
        kind = self._kind(rest)
        first = noted and kind.evaluated and self._is_first(plan, kind, course)
        self.tails.append(EpochEnd(plan, rest.seconds, first, kind, len(self._courses)))

    def end_known(self, a: Plan, b: Plan, within: int) -> bool:
        """Whether the script is known to end before so many steps, and a process under one of the plans has
        shown what comes after its last one: another would show nothing new.
        """
        ends = self.script_steps is not None and self.script_steps < within
        same = not (changing(a) or changing(b))
        return ends and same and any(tail.plan in (a, b) for tail in self.tails)

    def _course(self, plan: Plan, before: int) -> _Course:
        """The course of the current process; of a new one if nothing was ``before``."""
        if not before or not self._courses:
            self._courses.append(_Course(before, plain=not changing(plan)))
        return self._courses[-1]

    def _kind(self, step: Step) -> Kind:
        restarts = max(0, step.restarts - self.rhythm.restarts)
        return Kind(step.evaluations > self.rhythm.evaluations, restarts)

    def _is_first(self, plan: Plan, kind: Kind, course: _Course) -> bool:
        """Whether none of the kind occurred yet under all of ``plan``; for evaluations, none at all."""
        return not any(
            one.holds(plan) and (of == kind or (of.evaluated and kind.evaluated)) for one, of in course.under
        )

    def with_these(self, others: EpochEnds) -> EpochEnds:
        """The ends that both have seen, together."""
        return replace(
            self,
            seen=[*map(_apart, others.seen), *self.seen],
            tails=[*map(_apart, others.tails), *self.tails],
            _lengths=[*others._lengths, *self._lengths],
            _courses=[*others._courses, *self._courses],
        )

    # ---- results
    @property
    def planned_steps(self) -> int | None:
        """Of the whole script, as its loops say; None if they do not, or if what processes did contradicts
        them: one went further, or they ended after different numbers of steps.
        """
        planned = self.rhythm.planned_steps
        return None if planned is None or self.varies or planned < self.reach else planned

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds whose frequency is known."""
        course = self._furthest
        return tuple(course.at) if course is not None else ()

    def every(self, kind: Kind) -> float:
        """Steps from one of the kind to the next; infinite for one that was not seen."""
        at = self._at(kind)
        if not at:
            return math.inf
        return (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else float(at[0])

    @property
    def turns_every(self) -> float | None:
        """Steps from one that restarts a loader to the next, or those that followed the last, if that are
        more; None if none was seen.
        """
        turns = [kind for kind in self.kinds if kind.restarts]
        if not turns:
            return None
        return max(min(map(self.every, turns)), self.reach - max(self._at(kind)[-1] for kind in turns))

    def times(self, kind: Kind, steps: int) -> int:
        """How often it occurs between the steps of a run of ``steps``: as often as seen, and beyond what was
        followed, at the same distance.
        """
        at = [position for position in self._at(kind) if position < steps]
        if not at or self.reach >= steps:
            return len(at)
        return len(at) + max(0, math.ceil((steps - at[-1]) / max(1.0, self.every(kind))) - 1)

    def paces(self, plan: Plan) -> list[float]:
        """What regular steps of later epochs took, relative to those of the first, for each process that was
        seen to have enough of both under ``plan``.
        """
        both = [(course.first.get(plan, []), course.later.get(plan, [])) for course in self._courses]
        enough = [pair for pair in both if min(map(len, pair)) >= _PACE_STEPS]
        return [fmean(later) / fmean(first) for first, later in enough]

    @property
    def reach(self) -> int:
        """Steps of the script that were followed from its first one on."""
        return self._furthest.reach if self._furthest is not None else 0

    @property
    def varies(self) -> bool:
        """Whether the script's length differs from run to run: it stops early, or by a clock. A process that
        went further than another was long says so, too.
        """
        reached = [one.reach - _FEW_STEPS for one in self._courses if one.plain and one.followed]
        return bool(self._lengths) and max([*self._lengths, *reached]) > _ALIKE * min(self._lengths)

    def _at(self, kind: Kind) -> list[int]:
        return self._furthest.at.get(kind, []) if self._furthest is not None else []

    @property
    def _furthest(self) -> _Course | None:
        """The course that got furthest; one that began late has missed some."""
        order = sorted(self._courses, key=lambda one: (one.plain, not one.begin, one.reach))
        return next((one for one in reversed(order) if one.at or not one.begin), None)


def _apart(end: EpochEnd) -> EpochEnd:
    """The end, with a process number that none of our processes has."""
    return replace(end, process=-end.process)
