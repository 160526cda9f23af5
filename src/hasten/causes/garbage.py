"""Python's garbage collector runs while the training waits."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .of_the_run import breakdown, cause_in_run

_LEAST_SHARE = 0.02
_TECHNIQUES = ("gc_control",)


def look(facts: Facts) -> Cause | None:
    seen = breakdown(facts)
    if seen is None:
        return None
    count = seen.part("garbage").count
    text = f"is Python's garbage collector, which ran {count:,} {'time' if count == 1 else 'times'}"
    return cause_in_run(facts, "garbage", "garbage", _LEAST_SHARE, text, _TECHNIQUES)
