"""Parameter groups of an optimizer that could be stepped together: those of equal hyperparameters."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

Group = dict[str, Any]

PER_PARAMETER = frozenset(
    {
        *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam", "RAdam"),
        *("RMSprop", "Rprop", "SGD", "SparseAdam"),
    }
)
"""torch's own optimizers that update each parameter only from its own gradient and state, and read nothing
from a group except the hyperparameters among their defaults.
"""
_LOOK_AGAIN = 64  # steps after which tensors are checked again, even if they are the same


def why_not_merged(torch: ModuleType, optimizer: Optimizer) -> str:
    """Why groups of this optimizer cannot be stepped together; "" if they can."""
    kind = type(optimizer)
    if kind.__name__ not in PER_PARAMETER or kind is not getattr(torch.optim, kind.__name__, None):
        return f"{kind.__name__} may look at a parameter group as a whole"
    if not inspect.unwrap(kind.step).__module__.startswith("torch.optim."):
        return f"the step of {kind.__name__} is not torch's own"
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return "the script asked for differentiable=True"
    return ""


def distinct_groups(torch: ModuleType, optimizer: Optimizer) -> int:
    """How many groups would be left if those with equal hyperparameters were merged."""
    if why_not_merged(torch, optimizer):
        return len(optimizer.param_groups)
    return len(Merging(torch, optimizer).merged(optimizer))


class Merging:
    """Merges the groups of one optimizer, again each time: schedules change their hyperparameters.

    Groups are merged if everything the update reads is equal, tensors by identity, and if their parameters
    share class, device and dtype, by which torch chooses its kernels. What is known about the parameters is
    kept while they stay the same, and they are held weakly. A group costs about a microsecond.
    """

    def __init__(self, torch: ModuleType, optimizer: Optimizer) -> None:
        self._torch = torch
        self._read = itemgetter(*(name for name in optimizer.defaults if name != "params"))
        self._first_steps_apart = type(optimizer).__name__ == "SGD"
        self._parameters: list[weakref.ref[Tensor]] = []
        self._sizes: list[int] = []
        self._kinds: list[object] = []
        self._calls = 0

    def merged(self, optimizer: Optimizer) -> list[Group]:
        """Groups for one step. Those without an equal are the optimizer's own."""
        groups = optimizer.param_groups
        found: dict[object, list[Group]] = {}
        for number, (group, kind) in enumerate(zip(groups, self._kinds_of(groups), strict=True)):
            found.setdefault(self._key(optimizer, number, group, kind), []).append(group)
        return [alike[0] if len(alike) == 1 else _one_of(alike) for alike in found.values()]

    def _key(self, optimizer: Optimizer, number: int, group: Group, kind: object) -> object:
        """Equal for groups that may be merged; its number for one that must stay alone."""
        if kind is None:
            return number
        try:
            key = (kind, self._read(group))
            hash(key)
        except (KeyError, TypeError):  # a hyperparameter is missing, or is a list
            return number
        if self._first_steps_apart and group.get("fused") and group["momentum"]:
            return (key, _momentum(optimizer, group))
        return key

    def _kinds_of(self, groups: Sequence[Group]) -> list[object]:
        """For each group: class, device and dtype of its parameters; None if they differ."""
        parameters = [p for group in groups for p in group["params"]]
        sizes = [len(group["params"]) for group in groups]
        self._calls += 1
        if (
            self._calls % _LOOK_AGAIN == 1
            or sizes != self._sizes
            or any(ref() is not p for ref, p in zip(self._parameters, parameters, strict=True))
        ):
            self._kinds = self._look(groups, parameters)
            self._parameters, self._sizes = [weakref.ref(p) for p in parameters], sizes
        return self._kinds

    def _look(self, groups: Sequence[Group], parameters: Sequence[Tensor]) -> list[object]:
        torch = self._torch
        plain = {torch.Tensor, torch.nn.Parameter}
        in_memory = [p for p in parameters if type(p) in plain and p.layout is torch.strided]
        if _overlapping(in_memory):
            return [None] * len(groups)
        kinds: list[object] = []
        for group in groups:
            found = {(type(p), p.device, p.dtype, p.layout) for p in group["params"]}
            alike = found.pop() if len(found) == 1 else None
            kinds.append(alike if alike is not None and alike[0] in plain else None)
        return kinds


def _one_of(alike: Sequence[Group]) -> Group:
    return {**alike[0], "params": [p for group in alike for p in group["params"]]}


def _momentum(optimizer: Optimizer, group: Group) -> frozenset[bool]:
    """Whether the parameters to step have momentum: the fused kernel assumes that all parameters of a group
    have it, or none.
    """
    stepped = [p for p in group["params"] if p.grad is not None]
    return frozenset(optimizer.state.get(p, {}).get("momentum_buffer") is not None for p in stepped)


def _overlapping(parameters: Sequence[Tensor]) -> bool:
    """Whether any two share memory: then the order of their updates matters."""
    spans = sorted((str(p.device), *_span(p)) for p in parameters if p.numel())
    return any(one == other and begin < end for (one, _, end), (other, begin, _) in pairwise(spans))


def _span(tensor: Tensor) -> tuple[int, int]:
    """The address range of its elements."""
    begin = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()
