"""Lines of the script where a step waits: values fetched from the device, prints."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.observation import COPIES, Wait
from ..records.phases import phase_share

_LEAST_SHARE = 0.02
_SHOWN = 3


def look(facts: Facts) -> Cause | None:
    others = COPIES if facts.observation.run is None else (*COPIES, "print")  # output covers that
    share, lines = standing_still(facts, lambda wait: wait.what not in others)
    if not lines:
        return None
    advice = "fetch and print less often: fetching a value waits for the device"
    return Cause("waiting", share, f"a step waits for {share:.0%} of its time: {lines}; {advice}", ())


def standing_still(facts: Facts, counts: Callable[[Wait], bool]) -> tuple[float, str]:
    """The share of a step spent in waits that count, and the lines of the longest; "" if they are too short.

    Waiting for a busy GPU loses nothing: there, at most the share in which it has none of the
    step's phases to compute counts.
    """
    observation = facts.observation
    step = fmean(step.seconds for step in observation.steps) if observation.steps else 0.0
    waits = [wait for wait in observation.waits if counts(wait) and wait.seconds > _LEAST_SHARE * step > 0]
    if not waits:
        return 0.0, ""
    share = min(1.0, sum(wait.seconds for wait in waits) / step)
    if not facts.on_cpu:
        share = min(share, phase_share(observation, "other"))
    lines = ", ".join(f"{wait.what} at {wait.where} ({wait.seconds / step:.0%})" for wait in waits[:_SHOWN])
    return (share, lines) if share > _LEAST_SHARE else (0.0, "")
