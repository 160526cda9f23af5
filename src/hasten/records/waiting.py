"""How many threads of a training wait for a processor that other programs have."""

from __future__ import annotations

import math

from .facts import Facts

LEAST_WAITING = 0.3  # threads, on average: an operator ends when the last of its threads does


def waiting_threads(facts: Facts) -> float | None:
    """On average; None if that is less than 0.3, or if fewer threads would not compute the same sooner. What
    a container's quota stops, worker processes of loaders have, too many threads take from each other, or
    threads wait to be woken while there are processors enough for all of them: these are no other programs.
    """
    seen, used, machine = facts.observation, facts.observation.processors, facts.machine
    if not facts.on_cpu or used is None or not 1 < seen.threads <= machine.usable_cpus:
        return None
    if machine.logical_cpus - used.others - used.workers >= seen.threads:
        return None
    unused = min(machine.logical_cpus, machine.quota_cpus or math.inf) - used.own - used.workers
    waiting = min(used.waiting - used.workers, used.others, unused)
    return waiting if waiting >= LEAST_WAITING else None


def threads_beside_others(facts: Facts) -> int | None:
    """How many would not have to wait for other programs; None if none does now."""
    waiting = waiting_threads(facts)
    return max(1, facts.observation.threads - math.ceil(waiting)) if waiting is not None else None
