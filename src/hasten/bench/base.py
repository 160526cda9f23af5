"""The contract of a bench, and what every bench does the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from ..inside.techniques.catalog import CATALOG, changing
from ..records.plan import BASELINE, Plan
from ..records.trial import Proof, Seen, Trial, Unseen


class Bench(Protocol):
    """Compares two plans on one script. The search calls nothing else."""

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        """``b`` against ``a`` in about ``seconds``. A plan that fails gives a trial with its ``failure``, not
        an exception.
        """
        ...

    def method(self, a: Plan, b: Plan) -> str:
        """How the two would be compared now, in the words of ``Trial.method``."""
        ...

    def foreseen(self, a: Plan, b: Plan) -> float:
        """The least seconds that such a comparison takes, as far as known."""
        ...

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        """Find, in at most ``seconds``, where in a run the parts outside of steps occur in which the two
        differ. Call it before they are compared.
        """
        ...


def process_part(plan: Plan, from_first: Set[str] = frozenset()) -> Plan:
    """The part of a plan that must be settled before a process starts. ``from_first``: live techniques that
    can only be switched on at its first step.
    """
    return plan.only({name for name in plan.techniques if CATALOG[name].scope != "live"} | from_first)


def late(a: Plan, b: Plan, shows_after: Mapping[str, int]) -> int:
    """Steps before there is anything to compare: what differs may only show after so many."""
    names = {*a.techniques, *b.techniques}
    differing = [name for name in names if a.techniques.get(name) != b.techniques.get(name)]
    return min((shows_after.get(name, 0) for name in differing), default=0)


def outside_steps(a: Plan, b: Plan, within: Set[str] = frozenset()) -> tuple[str, ...]:
    """The parts of a run between its first step and its last, other than steps, that are shortened by
    techniques in only one of the two; () for none. ``within``: parts that belong to each step
    (``Rhythm.within_steps``).
    """
    return tuple(part for part in _parts(a, b) if part not in ("steps", "start", *within))


def at_start(a: Plan, b: Plan) -> bool:
    """Whether the two differ only in how a process starts."""
    return _parts(a, b) == ("start",)


def _parts(a: Plan, b: Plan) -> tuple[str, ...]:
    """The parts of a run that are shortened by the techniques in which the two differ."""
    names = [
        name for name in {**a.techniques, **b.techniques} if a.techniques.get(name) != b.techniques.get(name)
    ]
    return tuple(dict.fromkeys(part for name in names for part in CATALOG[name].parts))


def for_steps(plan: Plan, within: Set[str] = frozenset()) -> Plan:
    """``plan`` without what shortens other parts of a run between its first step and its last; the baseline
    if nothing for steps is left. ``within`` as in ``outside_steps``.
    """
    names = {name for name in plan.techniques if not outside_steps(BASELINE, plan.only({name}), within)}
    left = plan.only(names)
    return BASELINE if {"steps", *within}.isdisjoint(_parts(BASELINE, left)) else left


def method_of(a: Plan, b: Plan, from_first: Set[str] = frozenset(), within: Set[str] = frozenset()) -> str:
    """How the two are compared in a search, in the words of ``Trial.method``. ``from_first`` as in
    ``process_part``, ``within`` as in ``outside_steps``.
    """
    if outside_steps(a, b, within):
        return "stretches"
    if process_part(a, from_first) == process_part(b, from_first):
        return "live"
    return "starts" if at_start(a, b) else "pairs"


def from_second(a: Plan, b: Plan) -> bool:
    """Whether techniques in which the two differ act only from the second occurrence of their part on: the
    first says nothing about them.
    """
    return any(
        CATALOG[name].from_second
        for name in {**a.techniques, **b.techniques}
        if a.techniques.get(name) != b.techniques.get(name)
    )


def batches_ahead(plan: Plan) -> int:
    """Batches that the plan's techniques may have ready when a stopped worker continues."""
    return sum(CATALOG[name].ahead(settings) for name, settings in plan.techniques.items())


def loader_workers(plan: Plan) -> int:
    """Worker processes that the plan has make batches; 0 if it leaves that to the script."""
    counts = (CATALOG[name].loader_workers(settings) for name, settings in plan.techniques.items())
    return max(counts, default=0)


def batches_differ(a: Plan, b: Plan) -> bool:
    """Whether a process sees different batches under the two plans: the training itself differs, or more
    processes share each batch.
    """
    return _deciding_batches(a) != _deciding_batches(b)


def _deciding_batches(plan: Plan) -> Plan:
    return plan.only({*changing(plan).techniques, *_launched(plan)})


def _launched(plan: Plan) -> set[str]:
    return {name for name in plan.techniques if CATALOG[name].scope == "launch"}


def without_effect(proofs: Sequence[Proof]) -> str:
    """Why the proofs do not hold; "" if every technique took effect."""
    return "; ".join(f"{p.technique} had no effect ({p.evidence})" for p in proofs if not p.effective)
