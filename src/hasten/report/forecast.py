"""What a plan means for a whole run, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records.run_forecast import Assumed, ForecastPart, PartName, RunForecast, Span
from ..units import counted

_START_WORTH_A_WORD = 0.5  # seconds
_LASTING_WORTH_A_WORD = 0.5
_VAGUE = 3.0  # an interval that reaches further than so many times its value, up or down, tells nothing
_MINUTES, _HOURS = 120.0, 7200.0  # seconds from which times are given in these units
_ASSUMED: Mapping[Assumed, str] = {
    "length by loader": "that an epoch is one pass over its loader",
    "length by epochs": "that every epoch has as many steps as those that ended",
    "length by loops": "that training goes on to the end of the loops around its steps, and no other follows",
    "tail unseen": "that nothing takes long after the last step, which no process came to",
    "ends unseen": "that nothing comes between epochs but what is listed above: no epoch's end was seen, "
    "so evaluation, saving and the like are not in these numbers",
    "rare unseen": "that nothing comes between steps but what is listed above: what is rarer than the steps "
    "that were seen, such as saving, is not in these numbers",
    "epochs cut short": "that evaluation takes longer in whole epochs in proportion to the shortened "
    "ones that were timed",
    "same samples": "that the data set stays as it is from epoch to epoch: no second one was seen to begin",
    "rehearsed": "that its ranks were rehearsed, which the first run under the plan does",
}
_ENDS: Mapping[Assumed, str] = {
    "ends seen once": "as long each time (it was seen once)",
    "ends as plain": "as long under the plan as plain (no process under it was seen to do it twice)",
    "ends of other plans": "as long as while parts of the plan were tried",
}
_PARTS: Mapping[PartName, str] = {
    "hasten": "hasten itself",
    "start": "start",
    "steps": "steps",
    "later steps": "what becomes slower in later steps",
    "epoch ends": "evaluations and new epochs",
    "rollouts": "rollouts or evaluations between them",
    "tail": "after the last step",
    "set-up": "set-up",
}


def forecast_lines(found: RunForecast, tune_seconds: float) -> list[str]:
    """How long a run takes without and with the plan, when the tune pays off, and what that assumes."""
    value, low, high = found.after.value, found.after.low, found.after.high
    if not found.is_faster and (high > _VAGUE * value or value > _VAGUE * low):
        return [
            f"{_of(found)}: about {span_words(found.before.value)} before; under the plan it cannot be told. "
            "The processes of this tune trained at very different speeds, as they do beside other programs. "
            "Tune again when the machine is idle."
        ]
    lines = [f"{_before_and_after(found)}{_saved(found)}.", f"  ({_parts_words(found.parts)})"]
    if found.once:
        lines.append(f"  Once per run, in addition: {_parts_words(found.once)}.")
    if found.slower_start >= _START_WORTH_A_WORD:
        later = span_words(found.slower_start)
        lines.append(f"  Processes under the plan take {later} longer to start; that is included.")
    if found.lasting_seconds >= _LASTING_WORTH_A_WORD:
        lasting = span_words(found.lasting_seconds)
        lines.append(f"  Only the first run pays {lasting} of the set-up: later ones read what it made.")
    if found.is_faster:
        lines.append(_pays_words(found, tune_seconds))
    else:
        lines.append("  Runs vary by as much anyway: the plan may save nothing in a run of this length.")
    if found.assumed:
        lines.append(f"  This assumes {'; '.join(_assumed(found.assumed))}.")
    return lines


def longer_words(found: RunForecast) -> str:
    """That a run would take longer under the plan, and where."""
    what = _before_and_after(found)
    return f"{what[0].lower()}{what[1:]} ({_parts_words(found.parts)})"


def _assumed(codes: Sequence[Assumed]) -> list[str]:
    """What is assumed of the ends of epochs is one clause, in the place of the first of them."""
    ends = [_ENDS[code] for code in codes if code in _ENDS]
    told = f"that evaluation and everything else between epochs takes {', '.join(ends)}"
    return list(dict.fromkeys(_ASSUMED.get(code, told) for code in codes))


def _before_and_after(found: RunForecast) -> str:
    before = span_words(found.before.value)
    return f"{_of(found)}: {before} before, about {interval_words(found.after)} under the plan"


def _saved(found: RunForecast) -> str:
    """If the length is unknown, what this many steps save is the useful number."""
    if found.of != "steps" or not found.is_faster:
        return ""
    return f", which saves {interval_words(found.saved)}"


def _of(found: RunForecast) -> str:
    if found.of == "epoch":
        return f"An epoch ({counted(found.steps, 'step')})"
    if found.of == "steps":
        return counted(found.steps, "step")
    epochs = f", {counted(found.epochs, 'epoch')}" if found.epochs is not None else ""
    return f"A run with these arguments ({counted(found.steps, 'step')}{epochs})"


def _parts_words(parts: Sequence[ForecastPart]) -> str:
    """Each part with its seconds before and after."""
    return "; ".join(f"{_PARTS[part.name]} {_seconds_of(part)}" for part in parts)


def _seconds_of(part: ForecastPart) -> str:
    after = span_words(part.after.value)
    return f"{span_words(part.before.value)} -> {after}" if part.before.high else after


def _pays_words(found: RunForecast, tune_seconds: float) -> str:
    when = []
    if found.pays_runs is not None:
        when.append(f"after {counted(found.pays_runs, 'run')}")
    if found.pays_epochs is not None:
        when.append(f"in a single run from {counted(found.pays_epochs, 'epoch')} on")
    elif found.pays_steps is not None:
        when.append(f"in a single run from {counted(found.pays_steps, 'step')} on")
    return f"This tune ({span_words(tune_seconds)}) pays off {', or '.join(when)}."


def interval_words(span: Span) -> str:
    """A time and its interval, all in the same unit: "7.4 s (7.0 to 7.9)"."""
    _, scale = _unit(span.value)
    low, high = (_number(seconds / scale) for seconds in (span.low, span.high))
    return f"{span_words(span.value)} ({low} to {high})"


def span_words(seconds: float) -> str:
    """A duration as a person would say it: "830 ms", "20.2 s", "34.0 min", "5.2 h"."""
    unit, scale = _unit(seconds)
    return f"{_number(seconds / scale)} {unit}"


def _unit(seconds: float) -> tuple[str, float]:
    if seconds >= _HOURS:
        return "h", 3600.0
    if seconds >= _MINUTES:
        return "min", 60.0
    return ("s", 1.0) if seconds >= 1 else ("ms", 1e-3)


def _number(value: float) -> str:
    """The number as text, with one decimal if it has fewer than three digits before the point."""
    return f"{value:,.{0 if abs(value) >= 100 else 1}f}"
