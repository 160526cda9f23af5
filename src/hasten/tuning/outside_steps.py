"""Techniques that shorten other parts of a run than steps: what is worth comparing, and when.

A comparison of whole stretches takes long, so its possible gain is bounded first: a plain process is watched
until the part has occurred (``Bench.seek``), and the time beyond regular steps bounds the gain. Techniques
for a large share of the run are compared first, alone, with that share of the search's time; where steps are
so slow that not all can be tried for them, a good share is enough, if that much of the time will do. As
steps get faster, other parts take a larger share: what then takes a good one is compared before the
techniques for steps that need fresh processes, and again after these, and a budget that nobody named grows
for it; if it was not seen at first, it is looked for again. The rest comes last, in combination with what was
found; below 1%, nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..records.plan import BASELINE, Plan
from ..records.reasons import WhyNot
from ..records.thresholds import LARGE_SHARE, LEAST_SHARE
from ..records.trial import Unseen
from .candidate import Candidate
from .comparisons import Comparisons

GROWN_SHARE = 0.15  # of a run whose steps have become faster, or are too slow to compare all that helps them
LARGE_START = 0.05  # of a run: what shortens starts comes before what needs whole processes
_TO_LOOK = 0.1  # of the time left, for a part that may not occur at all, or takes as much of the run
_LOOKED = 1 / 3  # of a comparison's time, for a part that is known to
_GROWS = 0.05  # of a run: may become a good share as steps get faster
_LAST_LOOK = 0.5  # of the time left
_LOOKED_LEAST = 0.04  # of the time left, for such a part: enough where epochs can be cut short


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
        looked = _share_to_look(share)
        plan = candidate.added_to(BASELINE, 0)
        seen = comparisons.seek(candidate.technique.name, BASELINE, plan, comparisons.seconds_left * looked)
        if isinstance(seen, Unseen):
            why = WhyNot("not seen", parts=(seen.part,), share=share or 0.0, unseen=seen)
            comparisons.put_off(candidate.technique.name, why, plan, looked)
            continue
        share = seen.share if share is None else share
        if share is not None and share < LEAST_SHARE:
            why = WhyNot("small part", parts=candidate.technique.parts, share=share)
            comparisons.leave_out(candidate.technique.name, why)
            continue
        found.append(replace(candidate, share=share))
    return sorted(found, key=lambda candidate: -(candidate.share or 0.0))


def _share_to_look(share: float | None) -> float:
    """Share of the time left in which a part that takes this ``share`` of the run is looked for."""
    if share is None or share >= _TO_LOOK:
        return max(_TO_LOOK, _LOOKED * (share or 0.0))
    return max(_LOOKED * share, _LOOKED_LEAST if share >= _GROWS else 0.0)


def large(
    comparisons: Comparisons, candidates: Sequence[Candidate], of_steps: Sequence[Candidate]
) -> list[Candidate]:
    """Those to compare before steps: what is for a large part of the run. If there is no time to compare all
    ``of_steps``, a good part is enough, where the comparison takes no larger share of the time.
    """
    least = LARGE_SHARE if comparisons.has_time_for(of_steps) else GROWN_SHARE
    good = [one for one in candidates if (one.share or 0.0) >= least]
    each = comparisons.seconds_left / max(1, len(good))
    return [
        one
        for one in good
        if (share := one.share or 0.0) >= LARGE_SHARE or comparisons.takes(one) <= share * each
    ]


def divided(climbing: Sequence[Candidate]) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """The candidates up to the last that can be switched in a running process, with what shortens the start
    and is tried next; and those after it.
    """
    end = max((number for number, one in enumerate(climbing, 1) if one.technique.scope == "live"), default=0)
    while end < len(climbing) and climbing[end].technique.parts == ("start",):
        end += 1
    return climbing[:end], climbing[end:]


def share_of_faster(share: float, step: float) -> float:
    """The share of the run once a step takes ``step`` times what it took."""
    return share / (share + (1 - share) * step)


def grown_large(candidates: Sequence[Candidate], step: float) -> list[Candidate]:
    """Those whose part of the run takes a good share of it, largest first."""
    grown = [one for one in candidates if share_of_faster(one.share or 0.0, step) >= GROWN_SHARE]
    return sorted(grown, key=lambda candidate: -(candidate.share or 0.0))


def seen_again(
    comparisons: Comparisons, candidates: Sequence[Candidate], step: float, last: bool
) -> list[Candidate]:
    """Of those that were put off, as their part of the run was not seen: what takes a good share of it by
    now, and is seen in that share of the time left. In half of it, where these are the ``last`` that may be
    compared.
    """
    return [
        one
        for one in grown_large(candidates, step)
        if comparisons.look_again(
            one.technique.name, _LAST_LOOK if last else share_of_faster(one.share or 0.0, step)
        )
    ]


def too_long(comparisons: Comparisons, plan: Plan, candidate: Candidate) -> WhyNot:
    """Why a comparison that does not fit into the time left was not started."""
    budget = comparisons.budget_for(plan, candidate.added_to(plan, 0))
    return WhyNot("no time for stretches", parts=candidate.technique.parts, budget=budget)
