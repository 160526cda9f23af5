"""A one-time cost must be earned back before the script ends, if its length is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..records.trial import Trial


@dataclass
class ScriptLength:
    """The steps of the whole script: ``seen``, by a worker that reached its end, or ``planned``, by its
    loops, as far as these are believed by now.
    """

    seen: int | None = None
    planned: Callable[[], int | None] = lambda: None

    @property
    def steps(self) -> int | None:
        """None if nothing shows them."""
        return self.seen if self.seen is not None else self.planned()

    def told_of(self, trial: Trial) -> Trial:
        """``trial`` with what is known: then it says whether its set-up pays (``Trial.never_pays``). What one
        comparison finds out counts for all that follow.
        """
        if trial.script_steps is None:
            return replace(trial, script_steps=self.steps)
        self.seen = trial.script_steps
        return trial
