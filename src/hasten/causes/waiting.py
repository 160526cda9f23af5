"""Lines of the script at which a step stands still: values fetched from the device, prints."""

from __future__ import annotations

from statistics import fmean

from ..records.cause import Cause
from ..records.facts import Facts

_LEAST_SHARE = 0.02
_SHOWN = 3


def look(facts: Facts) -> Cause | None:
    observation = facts.observation
    step = fmean(step.seconds for step in observation.steps) if observation.steps else 0.0
    waits = [wait for wait in observation.waits if wait.seconds > _LEAST_SHARE * step > 0]
    if not waits:
        return None
    share = min(1.0, sum(wait.seconds for wait in waits) / step)
    lines = ", ".join(f"{wait.what} at {wait.where} ({wait.seconds / step:.0%})" for wait in waits[:_SHOWN])
    advice = "fetch and print less often: what is fetched from a device waits for it"
    return Cause("waiting", share, f"a step stands still for {share:.0%} of its time: {lines}; {advice}", ())
