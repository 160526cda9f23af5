"""The run evaluates: passes over data without training."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .of_the_run import breakdown, cause_in_run, lines

_LEAST_SHARE = 0.05
_TECHNIQUES = ("evaluation_in_ram", "graph_free_evaluation", "evaluation_bf16")


def look(facts: Facts) -> Cause | None:
    seen = breakdown(facts)
    if seen is None:
        return None
    text = f"is evaluation{lines(seen.part('evaluation'))}"
    return cause_in_run(facts, "evaluation", "evaluation", _LEAST_SHARE, text, _TECHNIQUES)
