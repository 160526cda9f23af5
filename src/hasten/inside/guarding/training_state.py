"""The state of a training between two steps: saved in one worker and loaded in another.

Loading copies values only: every tensor stays the same object, with its own strides.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..internals.other_functions import map_leaves
from ..random_state import rng_states, set_rng_states
from ..training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

State = dict[str, Any]
Tensors = dict[str, "Tensor"]
"""By name."""


def parameters_of(training: Training) -> Tensors:
    """The parameters of roots and optimizers by name, each once."""
    found: Tensors = {}
    seen: set[int] = set()

    def take(name: str, parameter: Tensor) -> None:
        if id(parameter) not in seen:
            seen.add(id(parameter))
            found[name] = parameter

    for prefix, root in _roots(training):
        for name, parameter in root.named_parameters():
            take(prefix + name, parameter)
    for number, optimizer in enumerate(training.optimizers):
        owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for position, parameter in enumerate(owned):
            take(f"optimizer {number}, parameter {position}", parameter)
    return found


def buffers_of(training: Training) -> Tensors:
    """The roots' buffers by name, each once."""
    return {
        prefix + name: buffer for prefix, root in _roots(training) for name, buffer in root.named_buffers()
    }


def optimizer_states_of(training: Training) -> list[dict[str, dict[str, Any]]]:
    """For each optimizer, its state by parameter, if any."""
    named = parameters_of(training).items()
    return [
        {name: optimizer.state[parameter] for name, parameter in named if optimizer.state.get(parameter)}
        for optimizer in training.optimizers
    ]


def taken_down(training: Training) -> State:
    """Everything that the next step starts from, except its batch. Nothing is copied. Within an update, what
    the optimizer keeps is left out: it goes on with variables of its own.
    """
    parameters = parameters_of(training)
    return {
        "parameters": {name: parameter.detach() for name, parameter in parameters.items()},
        "gradients": {name: dense(parameter.grad) for name, parameter in parameters.items()},
        "buffers": {name: buffer.detach() for name, buffer in buffers_of(training).items()},
        "optimizers": [] if training.steps_within_updates else optimizer_states_of(training),
        "rng": rng_states(training.torch),
    }


def take_up(training: Training, state: State) -> None:
    """Put the training into ``state``."""
    parameters = parameters_of(training)
    with training.torch.no_grad():
        for name, parameter in parameters.items():
            parameter.data.copy_(state["parameters"][name])
            _take_up_gradient(training.torch, parameter, state["gradients"][name])
        for name, buffer in buffers_of(training).items():
            buffer.data.copy_(state["buffers"][name])
        optimizers = [] if training.steps_within_updates else training.optimizers
        for optimizer, kept in zip(optimizers, state["optimizers"], strict=True):
            counting = _counting_on_device(optimizer)
            for name, parameter in parameters.items():
                with_count = id(parameter) in counting
                _take_up_kept(training.torch, optimizer.state, parameter, kept.get(name), with_count)
    set_rng_states(training.torch, state["rng"])


def dense(gradient: Tensor | None) -> Tensor | None:
    """A gradient that can be copied element by element, or None."""
    if gradient is None or str(gradient.layout) != "torch.strided":
        return None
    return gradient.detach()


def _roots(training: Training) -> list[tuple[str, Module]]:
    """Each root, with the prefix of its names."""
    roots = training.roots
    return [(f"{number}." if len(roots) > 1 else "", root) for number, root in enumerate(roots)]


def _take_up_gradient(torch: ModuleType, parameter: Tensor, gradient: Tensor | None) -> None:
    if gradient is None or parameter.grad is None or dense(parameter.grad) is None:
        parameter.grad = None if gradient is None else _laid_like(torch, gradient, parameter)
    else:
        parameter.grad.data.copy_(gradient)


def _counting_on_device(optimizer: Optimizer) -> set[int]:
    """The ids of parameters whose step count is on their device."""
    groups = [g for g in optimizer.param_groups if g.get("fused") or g.get("capturable")]
    return {id(parameter) for group in groups for parameter in group["params"]}


def _take_up_kept(
    torch: ModuleType, state: Any, parameter: Tensor, kept: dict[str, Any] | None, counts_on_device: bool
) -> None:
    """What an optimizer keeps for one parameter."""
    if not kept:
        state.pop(parameter, None)
        return
    mine = state[parameter]
    for key in set(mine) - set(kept):
        del mine[key]
    for key, value in kept.items():
        here = mine.get(key)
        if torch.is_tensor(value) and torch.is_tensor(here) and here.shape == value.shape:
            here.data.copy_(value)
        elif torch.is_tensor(value) and value.shape == parameter.shape:
            mine[key] = _laid_like(torch, value, parameter)
        elif torch.is_tensor(value):
            beside = value.dim() > 0 or counts_on_device
            mine[key] = value.to(parameter.device if beside else value.device, copy=True)
        else:  # a number, or tensors in a list
            mine[key] = map_leaves(
                torch,
                lambda part: part.to(parameter.device, copy=True) if torch.is_tensor(part) else part,
                value,
            )


def _laid_like(torch: ModuleType, value: Tensor, parameter: Tensor) -> Tensor:
    """A copy of ``value``, of the parameter's shape, with its strides and on its device."""
    made: Tensor = torch.empty_strided(
        value.shape, parameter.stride(), dtype=value.dtype, device=parameter.device
    )
    return made.copy_(value)
