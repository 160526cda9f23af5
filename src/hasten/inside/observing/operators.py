"""How many operators a step differentiates: the nodes of the graph that a backward pass goes through."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from statistics import median
from typing import Any

from .batches import tensors_in

_LOOKS = 4
_MOST_NODES = 20_000  # of a graph that are counted, at about 1 us each
_LEAVES = "torch::autograd::AccumulateGrad"


class OperatorsSeen:
    """Counts those of the first backward passes."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    @property
    def wants_more(self) -> bool:
        return len(self._counts) < _LOOKS

    def look(self, losses: object) -> None:
        """``losses``: what is about to be differentiated. A graph that cannot be read counts none."""
        self._counts.append(0)
        with suppress(Exception):  # whatever a script's own kind of tensor raises
            self._counts[-1] = _nodes_behind(tensor.grad_fn for tensor in tensors_in(losses))

    def usual(self) -> int | None:
        """The number in one backward pass; None if none was seen."""
        return round(median(self._counts)) if self._counts else None


def _nodes_behind(roots: Iterable[Any]) -> int:
    """How many there are, without the parameters' own; in a large graph, counting stops at the limit."""
    waiting = [node for node in roots if node is not None]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        found = {node for node, _ in waiting.pop().next_functions if node is not None} - seen
        seen |= found
        waiting += found
    return sum(node.name() != _LEAVES for node in seen)
