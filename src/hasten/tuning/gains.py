"""How much faster the parts of a plan make training, at least: the ends of the search's intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from ..records.plan import Plan


@dataclass
class Gains:
    """Of techniques that the search kept, alone or as one with others."""

    _by_names: dict[frozenset[str], float] = field(default_factory=dict)

    def add(self, speedup: float, names: Iterable[str]) -> None:
        """A later value takes the place of an earlier one."""
        self._by_names[frozenset(names)] = speedup

    @property
    def largest(self) -> float:
        """Of one part; 1 without any."""
        return max(1.0, *self._by_names.values()) if self._by_names else 1.0

    def together(self, plan: Plan) -> float:
        """Of all parts that are in ``plan``."""
        within = (one for names, one in self._by_names.items() if names <= plan.techniques.keys())
        return prod(max(1.0, one) for one in within)
