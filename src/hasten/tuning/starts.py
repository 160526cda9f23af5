"""Techniques that shorten the start of a run alone: they save seconds of a run, however long.

They wait until something else was found; they come early where the start is known to take a good part of a
run; and they keep out nothing that shortens steps. Where nothing else is found at all, a search is not for
them: ``starting_sooner`` looks whether they are worth a plan by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..bench.comparing.decisions import is_slower
from ..inside.techniques.exclusion import Catalog, Exclusion
from ..records.plan import BASELINE, Plan
from ..records.reasons import WhyNot
from .bounds import Bounds
from .candidate import Candidate
from .comparisons import Comparisons
from .outside_steps import GROWN_SHARE, LARGE_START


def is_for_start(name: str, catalog: Catalog) -> bool:
    return catalog[name].parts == ("start",)


def left_out_alone(comparisons: Comparisons, names: Sequence[str], catalog: Catalog) -> bool:
    """Whether these shorten nothing but the start; then it is kept why they are left out."""
    alone = all(is_for_start(name, catalog) for name in names)
    for name in names if alone else ():
        comparisons.leave_out(name, WhyNot("only the start"))
    return alone


def with_starts(
    comparisons: Comparisons, settled: Plan, found: Plan, steadying: Sequence[Candidate], catalog: Catalog
) -> Plan:
    """``found``, the baseline if nothing but the start gets shorter. If that has joined what was ``settled``,
    what steadies steps is in it again: without torch's compiler in it, a heap is so small that glibc's
    allocator gives it back after each step, so what was measured before does not hold.
    """
    if left_out_alone(comparisons, list(found.techniques), catalog):
        return BASELINE
    for candidate in steadying if found != settled else ():
        name = candidate.technique.name
        slower = any(row.technique == name and is_slower(row.ratio) for row in comparisons.tried)
        if slower or name in found.techniques or isinstance(candidate.fitting(found, catalog), Exclusion):
            continue
        found = found.adding(name, candidate.options[0])
        comparisons.left_out = [row for row in comparisons.left_out if row.technique != name]
        comparisons.leave_out(name, WhyNot("before the start"))
    return found


def due_before(candidate: Candidate, comparisons: Comparisons, bounds: Bounds) -> bool:
    """Whether starting is known to take so much of a run that what shortens it comes first: less of a run
    is enough where the candidate needs processes, too.
    """
    least = GROWN_SHARE if candidate.technique.scope == "live" else LARGE_START
    steps = comparisons.script_steps
    return steps is not None and bounds.share_of_start(steps) >= least


def with_room_for(candidate: Candidate, plan: Plan, catalog: Catalog) -> Plan:
    """``plan`` without what shortens the start alone and excludes the candidate, which shortens steps."""
    if is_for_start(candidate.technique.name, catalog):
        return plan
    alone = (plan.only({name}) for name in plan.techniques if is_for_start(name, catalog))
    excluding = [one for one in alone if isinstance(candidate.fitting(one, catalog), Exclusion)]
    return plan.only(set(plan.techniques).difference(*(one.techniques for one in excluding)))
