"""What a run says about the techniques that it tried, in a line or two. It claims nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...records.plan import Plan


@dataclass(frozen=True)
class Outcome:
    """``why`` a technique was not adopted, "" if it was; ``ratio``: a step's time with it over without."""

    name: str
    why: str
    ratio: float = 1.0


NOT_TRIED = "not tried"  # because its set-up could cost too much
_WHY = {
    NOT_TRIED: "not tried, because its set-up would take more than is left of 1% of the run",
    "slower": "slower",
    "no gain": "no gain seen",
    "too expensive": "trying it could cost too much",
}


def outcome_words(
    outcomes: Sequence[Outcome], found: Plan, before: float, lost_steps: float, ended: bool = False
) -> str:
    """``before``: seconds of a step at first; ``lost_steps``: what trying cost, in such steps."""
    adopted = [one for one in outcomes if not one.why]
    times = 1.0
    for one in adopted:
        times /= one.ratio
    under = f"trains on under {found.label}" if found else "trains on as before"
    if ended:
        kept = f" It had adopted {found.label}." if found else ""
        return f"the script ended while techniques were still being tried.{kept}"
    if adopted:
        gain = f", about {times:.2f} times faster in these steps"
        first = f"tried {_names(outcomes)} while training: {under}{gain}"
    elif any(one.why != NOT_TRIED for one in outcomes):
        first = f"tried {_names(outcomes)} while training and found nothing faster: {under}"
    else:
        first = f"nothing was tried while training: {under}"
    left: dict[str, list[str]] = {}
    for one in outcomes:
        if one.why and one.name not in found.techniques:
            left.setdefault(_WHY.get(one.why, one.why), []).append(one.name)
    why = "; ".join(f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in left.items())
    cost = f" (trying took about as long as {lost_steps:.0f} steps)" if lost_steps >= 1 else ""
    return f"{first}{cost}" + (f"\nhasten: not adopted: {why}" if why else "")


def _names(outcomes: Sequence[Outcome]) -> str:
    """The names of what was tried."""
    return ", ".join(dict.fromkeys(one.name for one in outcomes if one.why != NOT_TRIED))
