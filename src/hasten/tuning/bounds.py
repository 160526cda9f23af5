"""The largest share of a run that a technique can save, known before it is tried: a small cause gives little.
It is known if the technique says which phases of a step it makes shorter, and the training computes on the
CPU. On a GPU, work that is not waited for shows in the phase that waits next.

The shares change with each gain: the phase that became shorter takes a smaller share of a step, and the
others a larger one. The live comparison that found the gain has timed the phases, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from statistics import fmean

from ..causes.of_the_run import bound_of, breakdown
from ..inside.techniques.base import Technique
from ..records.facts import Facts
from ..records.observation import PHASES, Observation
from ..records.phases import phase_share
from ..records.reasons import WhyNot
from ..records.trial import Trial

LEAST_BOUND = 0.02  # of a run: what cannot give more is not tried
_WAITS_TOO = ("evaluation", "first batches", "garbage")  # other parts in which a data set is waited for


@dataclass(frozen=True)
class Bounds:
    """Times of the ``phases`` of a ``step``, and of ``others``, parts of a run outside of steps, divided by
    its steps. The unit is the time of a plain step, so ``step`` is 1 at first. Empty if nothing is known.
    ``start``: of the run, in the same unit. ``in_background``: a loader's processes make batches while the
    phases run.
    """

    phases: Mapping[str, float] = field(default_factory=dict)
    step: float = 1.0
    others: Mapping[str, float] = field(default_factory=dict)
    start: float = 0.0
    in_background: bool = False

    @classmethod
    def seen(cls, facts: Facts, within: Set[str] = frozenset()) -> Bounds:
        """The bounds by what was seen of the watched script. ``within``: parts of a run that belong to each
        step.
        """
        seen, run = facts.observation, breakdown(facts)
        in_steps = run.part("steps").seconds if run is not None else 0.0
        if not seen.steps or (run is not None and not in_steps):
            return cls()
        start = seen.start_seconds / fmean(step.seconds for step in seen.steps)
        if not facts.on_cpu:
            return cls(start=start)
        phases = {name: max(_mean(seen, name), phase_share(seen, name)) for name in PHASES}
        others = {part.name: part.seconds / in_steps for part in run.parts} if run is not None else {}
        others = {name: each for name, each in others.items() if name not in ("steps", *within)}
        workers = any(loader.workers for loader in seen.training_loaders)
        return cls(phases, 1.0, others, start, workers)

    def of(self, technique: type[Technique]) -> float | None:
        """The largest share of a run that the technique can save, 0 to 1; None if it is not known."""
        named = technique.phases
        if not named or not self.phases or ("data" in named and self.in_background):
            return None
        return bound_of(self.share(technique))

    def share(self, technique: type[Technique]) -> float:
        """The share of a run that its phases take, and whatever else waits for the same."""
        also = _WAITS_TOO if "data" in technique.phases else ()
        taken = sum(self.phases.get(name, 0.0) for name in technique.phases)
        taken += sum(self.others.get(name, 0.0) for name in also)
        return min(1.0, taken / (self.step + sum(self.others.values())))

    def share_of_start(self, steps: int) -> float:
        """The share of a run of so many steps that its start takes, 0 to 1; 0 if nothing is known."""
        around = sum(seconds for name, seconds in self.others.items() if name != "start")
        return self.start / (self.start + steps * (self.step + around))

    def why_not(self, technique: type[Technique]) -> WhyNot | None:
        """Why it is not worth trying; None if it may be."""
        bound = self.of(technique)
        if bound is None or bound >= LEAST_BOUND:
            return None
        return WhyNot("small phases", parts=technique.phases, share=self.share(technique), bound=bound)

    def adopting(self, trial: Trial) -> Bounds:
        """The bounds once the trial's ``b`` is adopted. Phases that were not timed may take as long
        as before.
        """
        if trial.ratio is None or trial.parts:  # it was not compared by steps
            return self
        step = self.step * trial.ratio.value
        if not (trial.phases_b and self.phases):
            return replace(self, step=step)
        each = step / sum(trial.phases_b.values())
        return replace(self, step=step, phases={name: each * taken for name, taken in trial.phases_b.items()})


def _mean(seen: Observation, name: str) -> float:
    """The phase's share of all steps, not of usual ones: a wait may come every few steps."""
    seconds = sum(step.seconds for step in seen.steps)
    return sum(step.phases.get(name, 0.0) for step in seen.steps) / seconds if seconds else 0.0
