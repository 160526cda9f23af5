"""How many threads of a training wait for a processor that other programs have."""

from __future__ import annotations

import math

from .facts import Facts

LEAST_WAITING = 0.3  # threads, on average: an operator ends when the last of its threads does


def waiting_threads(facts: Facts) -> float | None:
    """On average; None if that is less than 0.3, or if fewer threads would not compute the same sooner. What
    a container's quota stops, worker processes of loaders have, or too many threads take from each other are
    no other programs.
    """
    seen, used = facts.observation, facts.observation.processors
    if not facts.on_cpu or used is None or not 1 < seen.threads <= facts.machine.usable_cpus:
        return None
    waiting = min(used.waiting - used.workers, used.others)
    return waiting if waiting >= LEAST_WAITING else None


def threads_beside_others(facts: Facts) -> int | None:
    """How many would not have to wait for other programs; None if none does now."""
    waiting = waiting_threads(facts)
    return max(1, facts.observation.threads - math.ceil(waiting)) if waiting is not None else None
