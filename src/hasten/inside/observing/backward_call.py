"""What a call of backward() or autograd.grad() asks for, whether its arguments are positional or named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# their first parameters, in order: https://docs.pytorch.org/docs/stable/autograd.html
OF_TENSOR = ("self", "gradient", "retain_graph", "create_graph", "inputs")  # torch.Tensor.backward
OF_AUTOGRAD = ("tensors", "grad_tensors", "retain_graph", "create_graph")  # torch.autograd.backward
OF_GRAD = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph")  # torch.autograd.grad


@dataclass(frozen=True)
class BackwardCall:
    """``given``: what is differentiated. ``keeps_graph``: there may be another backward pass through it."""

    given: object
    creates_graph: bool
    keeps_graph: bool


def read_call(names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]) -> BackwardCall:
    """``names``: those of the function that is called with ``args`` and ``kwargs``."""

    def argument(name: str) -> object:
        place = names.index(name)
        return args[place] if place < len(args) else kwargs.get(name)

    creates = bool(argument("create_graph"))
    given = argument(names[0])
    return BackwardCall(() if given is None else given, creates, creates or bool(argument("retain_graph")))
