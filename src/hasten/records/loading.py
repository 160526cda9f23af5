"""How much of the processors' time the worker processes of loaders take from a training."""

from __future__ import annotations

from .facts import Facts
from .phases import phase_share

_FULL = 0.85  # of the processors are busy: what workers do, the training must wait for


def taken_by_workers(facts: Facts) -> float:
    """The share of a step by which workers slow the training where it computes itself, at most. 0 where
    processors are idle, or where that is not known.
    """
    used = facts.observation.processors
    if used is None or not facts.on_cpu or used.own + used.workers < _FULL * facts.machine.usable_cpus:
        return 0.0
    return used.workers / (used.own + used.workers) * (1 - phase_share(facts.observation, "data"))
