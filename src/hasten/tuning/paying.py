"""A one-time cost must be earned back before the script ends, if its length is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..records.trial import Trial


@dataclass
class ScriptLength:
    """The steps of the whole script, as far as known; None before anything shows them. What one comparison
    finds out counts for all that follow.
    """

    steps: int | None = None

    def told_of(self, trial: Trial) -> Trial:
        """``trial`` with what is known: then it says whether its set-up pays (``Trial.never_pays``)."""
        if trial.script_steps is None:
            return replace(trial, script_steps=self.steps)
        self.steps = trial.script_steps
        return trial
