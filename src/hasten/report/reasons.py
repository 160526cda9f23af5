"""Why a technique is kept, not kept or not tried, in words."""

from __future__ import annotations

from ..records.curve import ThreadPoint
from ..records.reasons import Reason, SetUp, WhyNot
from ..records.trial import Unseen
from ..units import counted, seconds_words
from . import guard
from .words import ONE_OF, parts_words, settings_words, technique_words

MOST_PERCENT = 100  # a worse resolution than this is put in words
TOO_NOISY = " (too noisy to tell)"
_INSTEAD = {  # of what was found
    "settings replaced": "a gain over the previous settings",
    "likely": "probably faster, but there are few pairs",
}
_THEREFORE = {
    "settings stay": ": the previous settings stay",
    "not kept": ": not kept",
    "too small": ": not kept, because it may be below 3% and each process pays for the set-up",
    "undecided": ": not conclusive, kept",
    "uncertain": ", but not one that is certain enough to be claimed",
}
_AT_THE_CHECK = {
    "did not apply": "it did not apply in the accuracy check",
    "not checked": "accuracy could not be checked",
    "not held": "the guard stopped it",
}
_PHASE = {"data": "waiting for data", "optimizer": "the update"}
_FOUND = {"slower": "slower", "not measured": "could not be measured"}
_LONGEST_BUDGET = 86_400.0  # seconds that are worth naming
_TOO_LATE = ": not kept, because no time is left to check and confirm it with its set-up in each process"


def reason_words(reason: Reason) -> str:
    """What the comparison of a row found, what to know when reading its number, and what follows."""
    if reason.guard is not None:
        return f"{_AT_THE_CHECK[reason.decision]}: {guard.reasons(reason.guard)[0]}"
    if reason.names and reason.parts:
        names = ", ".join(reason.names)
        return f"{_found_words(reason)}{_THEREFORE.get(reason.decision, '')}: {names}"
    if reason.names:
        return _together_words(reason)
    if reason.decision in _INSTEAD:
        return _INSTEAD[reason.decision]
    if reason.decision == "left out":
        return _left_out_words(reason)
    along = [f"with {technique_words(*item)}" for item in reason.along.techniques.items()]
    if reason.decision == "too late":
        return ", ".join([_found_words(reason), *along]) + _TOO_LATE + _budget_words(reason.budget)
    return ", ".join([_found_words(reason), *along]) + _THEREFORE.get(reason.decision, "")


def _found_words(reason: Reason) -> str:
    if reason.found == "failed":
        return reason.failure
    if reason.found == "gain":
        said = "a gain in combination" if reason.decision in ("earned", "not kept") else "a gain"
    elif reason.found == "no gain":
        said = f"no gain found{_resolution_words(reason)}"
    else:
        said = _FOUND[reason.found]
    set_up = [_set_up_words(reason.set_up)] if reason.set_up is not None else []
    return "; ".join([f"{said}{_over_words(reason)}", *set_up, *reason.remarks])


def _over_words(reason: Reason) -> str:
    """What plans were compared over, if not steps."""
    if reason.parts == ("start",):
        return " in the time to the first step"
    if reason.parts == ("start", "steps"):
        return " over a run of this length"
    if reason.parts == ("steps",):
        return ""
    if reason.late:
        return f" from about step {reason.late:,} on"
    return f" over whole stretches of the run, {parts_words(reason.parts)} included" if reason.parts else ""


def _left_out_words(reason: Reason) -> str:
    """Why confirmation left a technique out."""
    if reason.found == "failed":
        return f"left out: the plan with it failed{_over_words(reason)}: {reason.failure}"
    not_confirmed = (
        "the budget ended before the plan with it was confirmed"
        if reason.found == "not measured"
        else "the plan with it was not confirmed"
    )
    return f"left out: {not_confirmed}{_over_words(reason)}"


def _resolution_words(reason: Reason) -> str:
    if reason.resolution is None:
        return ""
    return TOO_NOISY if reason.resolution > MOST_PERCENT else f" (cannot tell under {reason.resolution}%)"


def _set_up_words(set_up: SetUp) -> str:
    seconds = seconds_words(set_up.seconds)
    costs, pays = f"its set-up took {seconds}", f"its set-up of {seconds} pays after"
    if set_up.slower_start:
        later = f"a run starts {seconds_words(set_up.slower_start)} later under it"
        with_set_up = set_up.seconds > set_up.slower_start
        costs = f"{later}, {seconds} with its set-up" if with_set_up else later
        pays = f"{costs}, which pays after"
    if set_up.breakeven_steps is None:
        return costs
    text = f"{pays} {counted(set_up.breakeven_steps, 'step')}"
    if set_up.script_steps is None:
        return text
    return f"{text}, and a run has {set_up.script_steps:,}"


def _together_words(reason: Reason) -> str:
    """About techniques that were tried as one."""
    names = ", ".join(reason.names)
    if reason.found == "gain" and reason.set_up is not None:
        return f"a gain together; {_set_up_words(reason.set_up)}: not kept: {names}"
    if reason.found == "gain":
        return f"a gain together: {names}"
    if reason.found == "failed":
        return reason.failure + ("; again without" if reason.decision == "again" else "; each tried alone")
    if reason.found == "slower":
        return f"slower together, so each tried alone: {names}"
    return f"no gain found together{_resolution_words(reason)}, so none tried alone: {names}"


def why_not_words(why: WhyNot) -> str:
    """Why a technique, or settings of it, were not tried."""
    if why.code in ("said", "by name", "not named", "excluded"):
        return why.text
    if why.code == "only the start":
        return "it shortens only the start, and nothing else was found: name it by --use, best with malloc"
    if why.code == "risk":
        return f"the risk here is {why.risk!r}, above --risk {why.allowed}"
    if why.code == "no time":
        what = " or ".join(map(settings_words, why.untried))
        before = f"before {what} could be tried" if what else "first"
        return f"the budget ended {before}{_budget_words(why.budget)}"
    if why.code == "small part":
        takes = "take" if len(why.parts) > 1 else "takes"
        return f"{parts_words(why.parts)} {takes} {why.share:.1%} of a run at most, so it cannot gain more"
    if why.code == "small phases":
        takes = "take" if len(why.parts) > 1 else "takes"
        phases = " and ".join(_PHASE.get(name, name) for name in why.parts)
        return f"{phases} {takes} {why.share:.1%} of a run: it cannot gain more than {why.bound:.1%} of it"
    if why.code == "not worth a look":
        what = ONE_OF.get(why.parts[0], "end of an epoch")
        takes = f"{parts_words(why.parts)} takes about {why.share:.1%} of a run"
        return f"{takes}, too little to wait for one {what} and the next"
    if why.code == "not seen" and why.unseen is not None:
        return f"{_unseen_words(why.unseen)}{_budget_words(why.budget, never_seen=not why.unseen.times)}"
    if why.code == "no time for stretches":
        stretches = f"whole stretches of the run, {parts_words(why.parts)} included"
        return f"comparing {stretches}, takes longer than the time that was left{_budget_words(why.budget)}"
    if why.code == "before the start":
        return "kept: it was measured before the start was shortened, which may change what it gains"
    return "kept: the budget ended before it could be measured in combination with the others"


def _unseen_words(unseen: Unseen) -> str:
    """Why a part of a run could not be compared."""
    what = ONE_OF.get(unseen.part, "end of an epoch")
    if unseen.failure:
        return f"watching for the {what} failed: {unseen.failure}"
    if not unseen.seconds:
        return f"there was not enough time to see one {what} and the next"
    seen = (
        f"no {what} was"
        if not unseen.times
        else f"one {what} was"
        if unseen.times == 1
        else f"{unseen.times} were"
    )
    needed = "more" if unseen.times > 1 else "two"
    if unseen.ended:
        return f"{seen} seen between the script's first and last step, and {needed} are needed"
    also = f", and {needed} are needed" if unseen.times else ""
    return f"{seen} seen within {seconds_words(unseen.seconds)}{also}"


def _budget_words(budget: float | None, never_seen: bool = False) -> str:
    """How long a part takes that was never seen is unknown. Nobody gives a tune a day."""
    if budget is None or budget > _LONGEST_BUDGET:
        return ""
    return f"; --budget {budget:.0f}{' or more' if never_seen else ''} would be enough"


def missing_words(point: ThreadPoint) -> str:
    """Why there is no time for this number of threads; "" if there is one."""
    if point.ratio is not None:
        return ""
    return reason_words(point.failed) if point.failed is not None else "the budget ended before"
