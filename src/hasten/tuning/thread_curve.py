"""Step time by number of threads: from what the search tried anyway, completed as time allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from ..bench.base import Bench
from ..inside.techniques.affinity import Affinity
from ..inside.techniques.processes import Processes
from ..inside.techniques.threads import Threads
from ..records.curve import ThreadCurve, ThreadPoint
from ..records.facts import Facts
from ..records.machine import Machine
from ..records.plan import Plan
from ..records.result import Tried
from ..records.trial import Ratio
from .budget import Budget
from .deadline import Deadline
from .reasons import reason_of

_DECIDE_THREADS = {Threads.name, Affinity.name, Processes.name}
_ITSELF = Ratio(1.0, 1.0, 1.0, 0, "pairs")


def counts(machine: Machine) -> list[int]:
    """One thread, two, four, ... up to one per core, and one per hardware thread; within the quota."""
    cores = min(machine.physical_cores, machine.whole_cpus)
    doubled = [2**power for power in range(cores.bit_length()) if 2**power < cores]
    every = [machine.logical_cpus] if machine.logical_cpus <= machine.whole_cpus else []
    return sorted({*doubled, cores, *every})


def curve_of(facts: Facts, tried: Sequence[Tried], plan: Plan) -> ThreadCurve | None:
    """The points that the search measured, all with one plan, and which are missing.

    ``plan``: what was kept, with which the missing points are to be measured if the search measured none.
    None if the number of threads is not ours to choose.
    """
    if Threads.refuse(facts):
        return None
    name = Threads.name
    rows = [row for row in tried if row.technique == name and row.ratio is not None and not row.ablation]
    plans = [row.against for row in rows if name not in row.against.techniques]
    together_with = (
        max(plans, key=plans.count) if plans else plan.only(set(plan.techniques) - _DECIDE_THREADS)
    )
    alike = [row for row in rows if row.against == together_with]
    usual = facts.observation.threads
    found = {int(row.settings["count"]): row.ratio for row in alike} | {usual: _ITSELF}
    failed = {
        int(row.settings["count"]): row.reason
        for row in tried
        if row.technique == name and row.ratio is None and row.against == together_with
    }
    seconds = [row.against_seconds for row in alike if row.against_seconds is not None]
    points = [
        ThreadPoint(
            count,
            found.get(count),
            hyperthreads=count > facts.machine.physical_cores,
            failed=None if count in found else failed.get(count),
        )
        for count in sorted({*counts(facts.machine), *found, *failed})
    ]
    return ThreadCurve(usual, together_with, tuple(points), median(seconds) if seconds else None)


def in_time(
    curve: ThreadCurve, bench: Bench, budget: Budget, announce: Callable[[str, Plan], None]
) -> ThreadCurve:
    """``complete``, as far as what the confirmation left of the budget goes."""
    comparison = budget.comparison(curve.together_with)
    return complete(curve, bench, budget.rest(), comparison, announce)


def complete(
    curve: ThreadCurve,
    bench: Bench,
    deadline: Deadline,
    seconds: float,
    announce: Callable[[str, Plan], None],
) -> ThreadCurve:
    """``curve`` with as many of its missing points as fit before the deadline, those near the usual number
    first. ``seconds``: duration of a comparison, as far as known.
    """
    waiting = [point for point in curve.missing if point.failed is None]
    waiting.sort(key=lambda point: abs(math.log(point.threads / curve.usual)))
    for number, point in enumerate(waiting):
        if deadline.left <= seconds:
            break
        announce(Threads.name, curve.together_with)
        plan = curve.together_with.adding(Threads.name, {"count": point.threads})
        trial = bench.compare(curve.together_with, plan, deadline.left / (len(waiting) - number))
        seconds = max(seconds, trial.seconds)
        failed = reason_of(trial, False) if trial.ratio is None else None
        measured = replace(point, ratio=trial.ratio, failed=failed)
        points = tuple(measured if other is point else other for other in curve.points)
        usual_seconds = curve.usual_seconds if curve.usual_seconds is not None else trial.step_seconds_a
        curve = replace(curve, points=points, usual_seconds=usual_seconds)
    return curve
