"""A debugging aid was left on. Its cost is not known: at most, everything that it slows down."""

from __future__ import annotations

from dataclasses import replace

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.observation import PROFILER
from ..records.phases import phase_share
from .of_the_run import of_the_run


def look(facts: Facts) -> Cause | None:
    found = facts.observation.leftovers
    if not found:
        return None
    named = ", ".join(f"{item.name} ({item.where})" if item.where else item.name for item in found)
    techniques = ("debugging_off",) if any(item.removable for item in found) else ()
    cause = Cause("debugging", 1.0, f"left on while training: {named}", techniques)
    return cause if any(item.name == PROFILER for item in found) else _of_the_passes(cause, facts)


def _of_the_passes(cause: Cause, facts: Facts) -> Cause:
    passes = phase_share(facts.observation, "forward", "loss", "backward")
    return replace(cause, share=of_the_run(replace(cause, share=passes), facts).share)
