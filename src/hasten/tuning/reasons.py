"""What a row of the search says of its comparison."""

from __future__ import annotations

from ..bench.comparing.decisions import gains, is_slower
from ..records.plan import Plan
from ..records.trial import Trial
from ..report.words import seconds_words
from .resolution import trial_words

_SETUP_WORTH_A_WORD = 1.0  # seconds


def reason_of(trial: Trial, kept: bool, where: str = "") -> str:
    """In words, with what a reader of the number should know. ``where`` a kept one is a gain."""
    if trial.failure is not None:
        return trial.failure
    gained = kept or (trial.never_pays and gains(trial.ratio))
    if gained:
        said = f"a gain{where}"
    elif trial.ratio is None:
        said = "could not be measured"
    elif is_slower(trial.ratio):
        said = "slower"
    else:
        said = f"no gain found{trial_words(trial.ratio)}"
    remarks = [proof.remark for proof in trial.proofs if proof.remark]
    return "; ".join([said, *_set_up(trial, gained), *remarks])


def _set_up(trial: Trial, gained: bool) -> list[str]:
    """What the set-up takes and when it has paid, where it is worth a word."""
    if trial.setup_seconds < _SETUP_WORTH_A_WORD and not (gained and trial.never_pays):
        return []
    if not gained or trial.breakeven_steps is None:
        return [f"its set-up took {seconds_words(trial.setup_seconds)}"]
    text = f"its set-up of {seconds_words(trial.setup_seconds)} pays after {trial.breakeven_steps} steps"
    return [f"{text}, and the script ends after {trial.script_steps}" if trial.never_pays else text]


def reason_together(trial: Trial, together: Plan, kept: bool, again: bool) -> str:
    """The same of techniques that were tried as one. ``again``: they are to be, without some of them."""
    names = ", ".join(together.techniques)
    if kept:
        return f"a gain together: {names}"
    if trial.failure is not None:
        return trial.failure + ("; again without" if again else "; each singly")
    if is_slower(trial.ratio):
        return f"slower together, so each singly: {names}"
    cannot_tell = trial_words(trial.ratio) if trial.ratio is not None else ""
    return f"no gain found together{cannot_tell}, so none singly: {names}"
