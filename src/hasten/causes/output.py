"""The training waits while it prints and logs."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .of_the_run import breakdown, cause_in_run, lines

_LEAST_SHARE = 0.02


def look(facts: Facts) -> Cause | None:
    seen = breakdown(facts)
    if seen is None:
        return None
    text = f"is printing and logging{lines(seen.part('output'))}: print and log less often"
    return cause_in_run(facts, "output", "output", _LEAST_SHARE, text, ())
