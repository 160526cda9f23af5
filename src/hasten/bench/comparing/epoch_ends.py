"""What came between steps while plans were compared: the steps into which an evaluation or a new pass over a
loader fell took that much longer. They count in no comparison, and a whole run has them.

Which steps these are is a matter of the script, and the same in each process of its training; so the process
that came furthest says how often they come, and all say how long each takes.
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

_ALIKE = 1.02  # times: runs of one script that differ in length by no more have one length
_FIRST_STEPS = 20  # models that are called first after these are no parts of one training
_PACE_STEPS = 10  # of an epoch, and of later ones, that tell how fast they are


class Kind(NamedTuple):
    """What fell into a step and falls into no regular one. An evaluation in mid-epoch and the turn of an
    epoch are two kinds, and both at once a third.
    """

    evaluated: bool = False
    restarts: int = 0  # loaders that began anew


TURN = Kind(restarts=1)


@dataclass(frozen=True)
class EpochEnd:
    """``seconds``: by which its step took longer than the regular ones near it, under ``plan``, without
    techniques' set-up. ``first``: of its kind and process under all of that plan, whose techniques may have
    filled a cache in it. ``process``: a number; those of one process are slow or fast together.
    """

    plan: Plan
    seconds: float
    first: bool = False
    kind: Kind = TURN
    process: int = 0


@dataclass
class _Course:
    """Where in the script's steps ends came, in one process, that was followed from ``begin`` to ``reach``.
    ``plain``: its steps are those of the script, not of a plan that trains otherwise.
    """

    begin: int
    plain: bool
    reach: int = 0
    at: dict[Kind, list[int]] = field(default_factory=dict)  # steps before each one
    under: list[tuple[Plan, Kind]] = field(default_factory=list)  # in order
    first: dict[Plan, list[float]] = field(
        default_factory=dict
    )  # seconds of regular steps of the first epoch
    later: dict[Plan, list[float]] = field(default_factory=dict)

    @property
    def turned(self) -> float:
        """Steps until a loader first began anew; infinite before."""
        return min((at[0] for kind, at in self.at.items() if kind.restarts), default=math.inf)


@dataclass
class EpochEnds:
    """Gathers them over all workers of a tune. ``tails``: what came after a script's last step, told as what
    comes between others. ``script_steps``: of the whole script, where a worker came to its end.
    """

    rhythm: Rhythm
    seen: list[EpochEnd] = field(default_factory=list)
    script_steps: int | None = None
    tails: list[EpochEnd] = field(default_factory=list)
    _another_model: int | None = None  # the step in which one came that had not been there before
    _lengths: list[int] = field(default_factory=list)  # as each process told that came to the end
    _courses: list[_Course] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.script_steps = self.script_steps or self.rhythm.steps_in_all
        if self.rhythm.steps_in_all is not None and not self._lengths:
            self._lengths = [self.rhythm.steps_in_all]

    def cautions(self) -> list[Caution]:
        """Of what was seen of the script's course."""
        found = self._another_model
        return [Caution("another model", count=found)] if found is not None else []

    # ---- what processes tell
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
        """So many ends in the ``steps`` of one process, of so many ``seconds`` each on average, which tells
        no more than one does.
        """
        course = self._course(plan, 0)
        course.reach, each = steps + 1, steps / count
        course.at[TURN] = [round(each * (number + 1)) for number in range(count)]
        self.seen.append(EpochEnd(plan, seconds, count == 1, TURN, len(self._courses)))

    def script_ended(self, steps: int) -> None:
        """A worker's script came to its end after so many."""
        self.script_steps = steps
        self._lengths.append(steps)

    def note_tail(self, plan: Plan, rest: Step | None, noted: bool = True) -> None:
        """``rest``: what came after the last step, if that was told: of the process that was ``noted`` last,
        else of one whose steps nobody has.
        """
        if rest is None:
            return
        course = self._course(plan, 0 if not noted else 1)
        kind = self._kind(rest)
        first = noted and kind.evaluated and self._is_first(plan, kind, course)
        self.tails.append(EpochEnd(plan, rest.seconds, first, kind, len(self._courses)))

    def _course(self, plan: Plan, before: int) -> _Course:
        """That of the process at hand; of a new one where nothing was ``before``."""
        if not before or not self._courses:
            self._courses.append(_Course(before, plain=not changing(plan)))
        return self._courses[-1]

    def _kind(self, step: Step) -> Kind:
        restarts = max(0, step.restarts - self.rhythm.restarts)
        return Kind(step.evaluations > self.rhythm.evaluations, restarts)

    def _is_first(self, plan: Plan, kind: Kind, course: _Course) -> bool:
        """Whether none of the kind came by yet under all of ``plan``; of what is evaluated, none at all."""
        return not any(
            one.holds(plan) and (of == kind or (of.evaluated and kind.evaluated)) for one, of in course.under
        )

    def with_these(self, others: EpochEnds) -> EpochEnds:
        """Both together."""
        return replace(
            self,
            seen=[*map(_apart, others.seen), *self.seen],
            tails=[*map(_apart, others.tails), *self.tails],
            _lengths=[*others._lengths, *self._lengths],
            _courses=[*others._courses, *self._courses],
        )

    # ---- what they come to
    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those of which it is known how often they come."""
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
        """Steps from one that begins a loader anew to the next; None if none was seen."""
        return min((self.every(kind) for kind in self.kinds if kind.restarts), default=None)

    def times(self, kind: Kind, steps: int) -> int:
        """How often it comes between the steps of a run of so many: as often as was seen, and at the same
        distance from where nobody was.
        """
        at = [position for position in self._at(kind) if position < steps]
        if not at or self.reach >= steps:
            return len(at)
        return len(at) + max(0, math.ceil((steps - at[-1]) / max(1.0, self.every(kind))) - 1)

    def paces(self, plan: Plan) -> list[float]:
        """What regular steps of later epochs took, times those of the first: of each process that was seen to
        have enough of both under ``plan``.
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
        """Whether the script ended after other numbers of steps each time: it stops early, or by a clock."""
        return bool(self._lengths) and max(self._lengths) > _ALIKE * min(self._lengths)

    def _at(self, kind: Kind) -> list[int]:
        return self._furthest.at.get(kind, []) if self._furthest is not None else []

    @property
    def _furthest(self) -> _Course | None:
        """Of the course that came furthest; one that began late has missed some."""
        order = sorted(self._courses, key=lambda one: (one.plain, not one.begin, one.reach))
        return next((one for one in reversed(order) if one.at or not one.begin), None)


def _apart(end: EpochEnd) -> EpochEnd:
    """With a number that no process of one's own has."""
    return replace(end, process=-end.process)
