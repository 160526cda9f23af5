"""Which techniques cannot be in one plan: the one place that decides it, symmetrically.

A technique names those that it cannot be combined with (``conflicts``, or ``excludes`` if it depends on the
settings). It is enough if one of two names the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from ...records.plan import Plan, Settings
from .base import Technique
from .catalog import CATALOG

Catalog = Mapping[str, type[Technique]]


@dataclass(frozen=True)
class Exclusion:
    """Two techniques that cannot be in one plan, in the order in which they were given."""

    first: str
    second: str
    why: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second} exclude each other: {self.why}"


def between(
    first: str, settings: Settings, second: str, others: Settings, catalog: Catalog = CATALOG
) -> Exclusion | None:
    """Why the two exclude each other; None if both can be in one plan with these settings."""
    a, b = catalog[first], catalog[second]
    why = a.excludes(settings, second, others) or b.excludes(others, first, settings)
    return Exclusion(first, second, why) if why else None


def within(plan: Plan, catalog: Catalog = CATALOG) -> Exclusion | None:
    """The first two of a plan that exclude each other; None if there are none."""
    for (first, settings), (second, others) in combinations(plan.techniques.items(), 2):
        found = between(first, settings, second, others, catalog)
        if found is not None:
            return found
    return None


def against(plan: Plan, name: str, settings: Settings, catalog: Catalog = CATALOG) -> Exclusion | None:
    """The first technique of ``plan``, if any, that excludes this one. Settings of the same technique in the
    plan do not count.
    """
    for other, others in plan.without(name).techniques.items():
        found = between(name, settings, other, others, catalog)
        if found is not None:
            return found
    return None


def named_by_either(name: str, catalog: Catalog = CATALOG) -> dict[str, str]:
    """The techniques that one cannot be combined with, at least with some settings, each with the reason."""
    own = catalog[name].conflicts
    reverse = {
        other: technique.conflicts[name]
        for other, technique in catalog.items()
        if name in technique.conflicts
    }
    return {**reverse, **own}
