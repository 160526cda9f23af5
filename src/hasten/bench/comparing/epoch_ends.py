"""What came between epochs while plans were compared: the steps into which an evaluation or a new epoch fell
took that much longer. They count in no comparison, and a whole run has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from ...records.observation import Step
from ...records.plan import Plan
from .steps import Rhythm


@dataclass(frozen=True)
class EpochEnd:
    """``seconds``: by which its step took longer than the regular ones near it, under ``plan``. ``first``: of
    its process under all of that plan, whose techniques may have been set up in it (a cache of test samples).
    """

    plan: Plan
    seconds: float
    first: bool = False


@dataclass
class EpochEnds:
    """Gathers them over all workers of a tune. ``script_steps``: of the whole script, where a worker came to
    its end.
    """

    rhythm: Rhythm
    seen: list[EpochEnd] = field(default_factory=list)
    script_steps: int | None = None
    _counted: int = 0  # ends in processes before the present one
    _steps: int = 0  # that these took until the last of their ends
    _now: tuple[int, int] = (0, 0)  # the same of the present one
    _ended_under: list[Plan] = field(default_factory=list)  # in the present one

    def __post_init__(self) -> None:
        self.script_steps = self.script_steps or self.rhythm.steps_in_all

    def note(self, plan: Plan, steps: Sequence[Step], before: int) -> None:
        """``steps`` that a process took under ``plan``, one after the other, ``before`` others before
        them."""
        if not before:
            self._counted, self._steps = self._counted + self._now[0], self._steps + self._now[1]
            self._now = (0, 0)
            self._ended_under = []
        regular = [step.seconds for step in steps if self.rhythm.regular(step)]
        for position, step in enumerate(steps, before):
            if not position or self.rhythm.regular(step):
                continue
            self._now = (self._now[0] + 1, position)
            first = not any(_has_all_of(one, plan) for one in self._ended_under)
            self._ended_under.append(plan)
            if regular:
                self.seen.append(EpochEnd(plan, max(0.0, step.seconds - median(regular)), first))

    def note_ends(self, plan: Plan, seconds: float, count: int, steps: int) -> None:
        """So many ends in the ``steps`` of one process, of so many ``seconds`` each in the mean, which tells
        no more than one does.
        """
        self.seen.append(EpochEnd(plan, seconds, count == 1))
        self._now = (self._now[0] + count, max(self._now[1], steps))

    def script_ended(self, steps: int) -> None:
        """A worker's script came to its end after so many."""
        self.script_steps = steps

    def with_these(self, others: EpochEnds) -> EpochEnds:
        """Both together."""
        counted, steps = others._counted + others._now[0], others._steps + others._now[1]
        return replace(
            self,
            seen=[*others.seen, *self.seen],
            _counted=self._counted + counted,
            _steps=self._steps + steps,
        )

    @property
    def every(self) -> float | None:
        """Steps from one to the next; None where none was seen."""
        counted = self._counted + self._now[0]
        return (self._steps + self._now[1]) / counted if counted else None


def _has_all_of(plan: Plan, of: Plan) -> bool:
    return all(plan.techniques.get(name) == settings for name, settings in of.techniques.items())
