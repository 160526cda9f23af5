"""The operators that a step differentiates: the nodes of the graph that a backward pass goes through."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from statistics import median
from typing import Any

from .batches import tensors_in

_LOOKS = 4
_MOST_NODES = 20_000  # of a graph that are counted, at about 1 us each
_LEAVES = "torch::autograd::AccumulateGrad"
_HOPS = 3  # from a batch norm to the layer that it follows


class OperatorsSeen:
    """Counts those of the first backward passes, and finds some kinds of them."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._pools_apart = self._bias_before_norm = False
        self._all_seen = True  # no graph was too large, and nothing computes out of sight

    @property
    def wants_more(self) -> bool:
        return len(self._counts) < _LOOKS

    def look(self, losses: object) -> None:
        """``losses``: what is about to be differentiated. A graph that cannot be read counts none."""
        self._counts.append(0)
        all_seen, self._all_seen = self._all_seen, False
        with suppress(Exception):  # whatever a script's own kind of tensor raises
            nodes = _nodes_behind(tensor.grad_fn for tensor in tensors_in(losses))
            names = [(node, node.name()) for node in nodes]
            self._counts[-1] = sum(name != _LEAVES for _, name in names)
            self._pools_apart |= any(_pools_apart(node) for node, name in names if "MaxPool2D" in name)
            self._bias_before_norm |= any(_follows_bias(node) for node, name in names if "BatchNorm" in name)
            own = any(name != _LEAVES and not name[-1:].isdigit() for _, name in names)
            self._all_seen = all_seen and bool(nodes) and len(nodes) < _MOST_NODES and not own

    def usual(self) -> int | None:
        """The number in one backward pass; None if none was seen."""
        return round(median(self._counts)) if self._counts else None

    def found(self) -> dict[str, Any]:
        """Fields of an ``Observation``."""
        return {
            "operators": self.usual(),
            "pools_apart": self._known(self._pools_apart),
            "bias_before_norm": self._known(self._bias_before_norm),
        }

    def _known(self, seen: bool) -> bool | None:
        return seen or (False if self._counts and self._all_seen else None)


def _pools_apart(node: Any) -> bool:
    kernel, stride = tuple(node._saved_kernel_size), tuple(node._saved_stride)
    return kernel == (2, 2) and stride in ((2, 2), ())


def _follows_bias(norm: Any) -> bool:
    """Whether one of the nodes before it, up to the first that has parameters, has one in one dimension."""
    node = norm.next_functions[0][0]
    for _ in range(_HOPS):
        before = [
            found for found, _ in (node.next_functions if node is not None else ()) if found is not None
        ]
        parameters = [found.variable for found in before if found.name() == _LEAVES]
        if parameters or len(before) != 1:
            return any(parameter.dim() == 1 for parameter in parameters)
        (node,) = before
    return False


def _nodes_behind(roots: Iterable[Any]) -> set[Any]:
    """Those of a graph, with one for each parameter; of a large graph, the limit and a few more."""
    waiting = [node for node in roots if node is not None]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        found = {node for node, _ in waiting.pop().next_functions if node is not None} - seen
        seen |= found
        waiting += found
    return seen
