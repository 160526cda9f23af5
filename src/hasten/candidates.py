"""Which techniques are worth trying here, and in what order."""

from __future__ import annotations

from collections.abc import Sequence

from .inside.techniques.base import RISKS, Risk, Technique
from .inside.techniques.catalog import CATALOG
from .records.cause import Cause
from .records.facts import Facts
from .records.verdict import Refused
from .search import Candidate


def choose(facts: Facts, causes: Sequence[Cause], risk: Risk) -> tuple[list[Candidate], list[Refused]]:
    """Candidates in the order to try them, and what was refused with its reasons."""
    candidates: list[Candidate] = []
    refused: list[Refused] = []
    for name, technique in CATALOG.items():
        reasons = technique.refuse(facts)
        found = technique.risk_for(facts)
        if RISKS.index(found) > RISKS.index(risk):
            reasons = [*reasons, f"its risk here is {found!r}, above --risk {risk}"]
        if reasons:
            refused.append(Refused(name, tuple(reasons)))
        else:
            candidates.append(Candidate(technique, technique.options(facts)))
    return sorted(candidates, key=lambda candidate: _turn(candidate.technique, causes)), refused


def _turn(technique: type[Technique], causes: Sequence[Cause]) -> tuple[int, float, int]:
    """The allocator first: it is the largest noise and often a large gain. Then by what the causes suggest.

    What needs new processes comes after what is tried live, so that it is judged in its final company.
    """
    share = max((cause.share for cause in causes if technique.name in cause.techniques), default=0.0)
    if technique.name == "malloc":
        return (0, 0.0, 0)
    live = technique.scope == "live"
    return (1 if live else 2, -share, list(CATALOG).index(technique.name))
