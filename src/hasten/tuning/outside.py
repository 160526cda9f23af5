"""Techniques that shorten other parts of a run than steps: what is worth comparing, and when.

A comparison of whole stretches takes long, so its possible gain is bounded first: a plain process is watched
until the part has occurred (``Bench.seek``), and the time beyond regular steps bounds the gain. Techniques
for a large share of the run are compared first, alone, with that share of the search's time; the rest last,
in combination with what was found for steps; below 1%, nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..records.plan import BASELINE, Plan
from ..records.reasons import WhyNot
from ..records.trial import Unseen
from .candidate import Candidate
from .candidates import LEAST_SHARE
from .comparisons import Comparisons

LARGE_SHARE = 0.3  # share of a run
_TO_LOOK = 0.1  # of the time left, for a part that may not occur at all
_LOOKED = 1 / 3  # of a comparison's time, for a part that is known to


def weighed(comparisons: Comparisons, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those worth comparing, each with its share of the run if known, largest first; why the others are not
    is kept.
    """
    found = []
    for candidate in candidates:
        if comparisons.seconds_left <= 0:
            comparisons.leave_out(candidate.technique.name, WhyNot("no time"))
            continue
        share = candidate.share
        looked = _TO_LOOK if share is None else _LOOKED * share
        plan = candidate.added_to(BASELINE, 0)
        seen = comparisons.seek(candidate.technique.name, BASELINE, plan, comparisons.seconds_left * looked)
        if isinstance(seen, Unseen):
            why = WhyNot("not seen", parts=(seen.part,), unseen=seen)
            comparisons.put_off(candidate.technique.name, why, plan, looked)
            continue
        share = seen.share if share is None else share
        if share is not None and share < LEAST_SHARE:
            why = WhyNot("small part", parts=candidate.technique.parts, share=share)
            comparisons.leave_out(candidate.technique.name, why)
            continue
        found.append(replace(candidate, share=share))
    return sorted(found, key=lambda candidate: -(candidate.share or 0.0))


def large(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those to compare before steps."""
    return [candidate for candidate in candidates if (candidate.share or 0.0) >= LARGE_SHARE]


def too_long(comparisons: Comparisons, plan: Plan, candidate: Candidate) -> WhyNot:
    """Why a comparison that does not fit into the time left was not started."""
    budget = comparisons.budget_for(plan, candidate.added_to(plan, 0))
    return WhyNot("no time for stretches", parts=candidate.technique.parts, budget=budget)
