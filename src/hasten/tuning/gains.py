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

    def add(self, speedup: float, names: Iterable[str], other_settings: bool = False) -> None:
        """A later value takes the place of an earlier one. ``other_settings``: over the earlier ones."""
        within = frozenset(names)
        self._by_names[within] = speedup * (self._by_names.get(within, 1.0) if other_settings else 1.0)

    @property
    def largest(self) -> float:
        """Of one part; 1 without any."""
        return max(1.0, *self._by_names.values()) if self._by_names else 1.0

    def together(self, plan: Plan) -> float:
        """Of all parts that are in ``plan``. One that was tried again alone counts by that."""
        there = [names for names in self._by_names if names <= plan.techniques.keys()]
        alone = {name for names in there if len(names) == 1 for name in names}
        counted = [names for names in there if len(names) == 1 or not names & alone]
        return prod(max(1.0, self._by_names[names]) for names in counted)
