"""What a tune concluded, and what it could not tell, in words."""

from __future__ import annotations

from ..records.conclusion import Code, Looks, Resolution, Unsure
from ..records.result import TuneResult
from ..records.run_forecast import RunForecast
from ..records.trial import Ratio
from ..records.verdict import GuardVerdict
from ..units import counted
from . import forecast, guard
from .reasons import MOST_PERCENT

QUALITY_UNKNOWN = "model quality was not checked: hasten verify does that"
_PLAIN: dict[Code, str] = {
    "slower": "what looked faster proved slower in fresh processes",
    "not held": "what was faster did not keep accuracy",
    "not seen": "accuracy under the plan was not checked",
    "no time": "the budget ended before anything could be tried",
    "nothing applies": "no technique applies here",
}


def conclusion_words(result: TuneResult) -> str:
    """Why the tune claims a gain, or none."""
    found, verdict = result.reason, result.guard
    short = guard.shortfall_words(found.short)
    kept = f"could be tried, as time is kept to check and confirm what is faster: {short}" if short else ""
    if found.code == "no time" and kept:
        return f"nothing {kept}"
    if found.code in _PLAIN:
        return _PLAIN[found.code]
    if found.code == "confirmed" and verdict is not None:
        return _confirmed_words(verdict)
    if found.code == "not checked" and verdict is not None:
        return _not_checked_words(verdict)
    if found.code == "unsure" and found.unsure is not None:
        return _unsure_words(found.unsure)
    if found.code == "longer run" and found.run is not None and result.measured is not None:
        return _longer_words(found.run, result.measured)
    resolution = _resolution_words(found.resolution) if found.resolution is not None else ""
    if found.code == "nothing faster":
        more = f". Not all {kept}" if kept else ""
        return f"nothing tried is faster{resolution}{more}"
    if found.code == "noise":
        noise = "what looked faster was not confirmed in fresh processes: it is within the noise"
        return f"{noise}{resolution}"
    return f"the plan failed in fresh processes: {found.text}" if found.code == "failed" else found.text


def _confirmed_words(verdict: GuardVerdict) -> str:
    if verdict.changes:
        return f"the gain in speed is confirmed in fresh processes; {QUALITY_UNKNOWN}"
    return "the gain is confirmed in fresh processes"


def _not_checked_words(verdict: GuardVerdict) -> str:
    reasons = guard.reasons(verdict)
    return (
        reasons[0] if verdict.why_not == "budget" else f"accuracy could not be checked: {'; '.join(reasons)}"
    )


def _longer_words(found: RunForecast, measured: Ratio) -> str:
    """With the parts of a run, as these show where its time would go."""
    times = f"what was compared trains {1 / measured.value:.2f} times faster in fresh processes"
    advice = "Leave out what costs that: name the others, each by --only"
    return f"{times}, but {forecast.longer_words(found)}. {advice}"


def _resolution_words(found: Resolution) -> str:
    """The smallest gain that would have been found, and the budget for smaller ones."""
    if found.percent > MOST_PERCENT:
        return ". Measurements vary too much to tell anything: tune again when the machine is idle"
    if found.pairs is not None:
        what, who = f"{found.pairs} pairs that vary as much as these", ""
    else:
        what, who = "comparisons that vary as the least steady of these", "a search under "
    text = (
        f". Cannot tell under {found.percent}%: {what} find a gain of {found.percent}% four times in five, "
        "smaller ones less often"
    )
    if found.budget is None:
        return text
    return f"{text}; {who}--budget {found.budget:.0f} would find {found.finer}%"


def _unsure_words(found: Unsure) -> str:
    """Why the gain that the pairs found is not claimed: processes under the plan are slow, or may be."""
    measured = (
        f"no certain one: {found.pairs} pairs of fresh processes measured {found.speedup:.2f} times faster"
    )
    if found.slow:
        why = f"but {found.slow} of {found.seen} processes under the plan were slow, and others may be"
    else:
        why = (
            f"but a process may be slow throughout (by {found.slower:.0%} if its memory layout is bad), "
            f"and {found.seen} under the plan are too few to rule that out for so small a gain"
        )
    if found.hopeless:
        return f"{measured}, {why}; no --budget is long enough to start enough of them"
    if found.budget is None:
        return f"{measured}, {why}"
    return f"{measured}, {why}; --budget {found.budget:.0f} would start enough of them"


def looks_words(looks: Looks) -> str:
    """On processes under the plan that were started in addition to the pairs."""
    return f"{counted(looks.count, 'further process')} under the plan, {looks.slow or 'none'} of them slow"
