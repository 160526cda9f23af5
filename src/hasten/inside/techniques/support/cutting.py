"""Chooses channels of a model by torch-pruning, removes them from a copy, and proves on copies that the model
with zeros in their place computes the same. The model itself is not touched.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.modules import convolution_kind
from ...seams import Args, Kwargs
from ...structures import tensors_of
from .slices import Kept, kept_of, markers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.autograd.graph import Node
    from torch.nn import Module

_TOLERANCE = {"cpu": 1e-3}  # relative to the largest output: sums over fewer terms round differently
_TOLERANCE_ELSEWHERE = 1e-2  # convolutions may compute in TF32
_ROUNDINGS = 8.0  # of the outputs' own type, if that is coarser
_NAMES = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear")

Attributes = dict[str, dict[str, "int | tuple[int, ...]"]]
"""By module and by name."""
_MIXING = ("LayerNorm", "RMSNorm", "GroupNorm", "MultiheadAttention", "RNNBase")
"""Layers whose every output depends on all channels, so that zeroing a channel is not removing it."""


class CannotCut(Exception):
    """The model cannot be cut here; the message says why."""


@dataclass(frozen=True)
class Cut:
    """``kept`` by the name of each parameter and buffer that becomes smaller; ``attributes`` by module and
    name, those that tell its size. Parameters and multiply-accumulates of one pass, before and after.
    """

    kept: dict[str, Kept]
    attributes: Attributes
    parameters: tuple[int, int]
    operations: tuple[int, int]


@dataclass(frozen=True)
class Wish:
    """``ratio`` of channels to remove, by their weights' ``criterion`` ("l1", "l2"), ``scope`` "local" (in
    every layer) or "global" (over all).
    """

    ratio: float
    criterion: str
    scope: str


def cut(torch: ModuleType, root: Module, args: Args, kwargs: Kwargs, wish: Wish) -> Cut:
    """What to remove from ``root``, whose forward pass takes ``args`` and ``kwargs``.

    Raises CannotCut, also where zeros in place of what is removed would compute something else (a layer norm
    over channels, say).
    """
    full, small = _copied(root), _copied(root)
    with _undisturbed(torch, root):
        _, operations = _outputs(torch, full, args, kwargs)
        groups = _chosen(torch, small, args, kwargs, wish)
        kept, attributes = _take_out(torch, small, root, groups)
        if not kept:
            raise CannotCut("there is no layer whose channels could be removed")
        _fill(small, root, kept, Kept.sliced)
        _fill(full, root, kept, lambda chosen, value: chosen.restored(chosen.sliced(value)))
        with_zeros, _ = _outputs(torch, full, args, kwargs)
        found, fewer = _outputs(torch, small, args, kwargs)
    reason = _differ(torch, with_zeros, found)
    if reason:
        raise CannotCut(f"zeros in place of removed channels do not compute the same ({reason})")
    counts = [sum(p.numel() for p in model.parameters()) for model in (full, small)]
    return Cut(kept, attributes, (counts[0], counts[1]), (operations, fewer))


def _copied(root: Module) -> Module:
    try:
        return copy.deepcopy(root).eval()
    except Exception as error:
        raise CannotCut(f"the model cannot be copied: {error}") from error


def _undisturbed(torch: ModuleType, root: Module) -> ExitStack:
    """A context without autocast and without warnings (of torch-pruning), which restores the global RNG
    states at its end.
    """
    stack = ExitStack()
    on_gpus = {p.device.index or 0 for p in root.parameters() if p.device.type == "cuda"}
    stack.enter_context(torch.random.fork_rng(devices=sorted(on_gpus)))
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")
    stack.enter_context(torch.enable_grad())
    for kind in {p.device.type for p in root.parameters()}:
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


def _chosen(torch: ModuleType, model: Module, args: Args, kwargs: Kwargs, wish: Wish) -> list[Any]:
    """Groups of layers with the channels to remove in each, all computed before any is removed."""
    import torch_pruning

    pruner = torch_pruning.pruner.BasePruner(
        model,
        example_inputs=args,
        importance=torch_pruning.importance.GroupMagnitudeImportance(p=1 if wish.criterion == "l1" else 2),
        global_pruning=wish.scope == "global",
        pruning_ratio=wish.ratio,
        ignored_layers=_untouchable(torch, model, args, kwargs),
        in_channel_groups={},
        out_channel_groups={},
        num_heads={},
        root_module_types=[convolution_kind(torch), torch.nn.Linear],
        forward_fn=lambda model, inputs: model(*inputs, **kwargs),
    )
    mixing = tuple(getattr(torch.nn, name) for name in _MIXING)
    return [
        group
        for group in pruner.step(interactive=True)
        if not any(isinstance(dependency.target.module, mixing) for dependency, _ in group)
    ]


def _untouchable(torch: ModuleType, model: Module, args: Args, kwargs: Kwargs) -> list[Module]:
    """Layers that make the model's output, with no other layer after them, and layers that share weights."""
    layers = _layers(torch, model)
    made: dict[Node | None, Module] = {}
    with ExitStack() as hooks:
        for layer in layers:
            hook = layer.register_forward_hook(lambda layer, _, out: made.update({out.grad_fn: layer}))
            hooks.callback(hook.remove)
        output = model(*args, **kwargs)
    waiting: list[Node | None] = [tensor.grad_fn for tensor in tensors_of(torch, output)]
    last: list[Module] = []
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made:
            last.append(made[node])
        else:
            waiting += [before for before, _ in node.next_functions]
    uses = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    shared = [layer for layer in layers if any(uses[id(p)] > 1 for p in layer.parameters(recurse=False))]
    return last + shared


def _layers(torch: ModuleType, model: Module) -> list[Module]:
    kinds = tuple(getattr(torch.nn, name) for name in _NAMES)
    return [module for module in model.modules() if isinstance(module, kinds)]


def _take_out(
    torch: ModuleType, model: Module, original: Module, groups: list[Any]
) -> tuple[dict[str, Kept], Attributes]:
    """Remove the groups' channels from ``model``; what is kept of each tensor is read from markers in it."""
    for _, tensor in _named(model):
        if tensor.is_floating_point():
            tensor.data = markers(torch, tensor)
    for group in groups:
        group.prune()
    before, kept = dict(_named(original)), {}
    for name, tensor in _named(model):
        if name not in before:
            raise CannotCut(f"removing channels made {name}, which the model does not have")
        if tensor.shape != before[name].shape:
            fill = 1.0 if name.endswith("running_var") else 0.0
            try:
                kept[name] = kept_of(torch, tuple(before[name].shape), tensor.detach(), fill)
            except ValueError as error:
                raise CannotCut(f"{name}: {error}") from error
    return kept, _changed_attributes(original, model)


def _changed_attributes(original: Module, model: Module) -> Attributes:
    """Integers and tuples of them that a module keeps about its size."""
    changed: Attributes = {}
    for (name, before), after in zip(original.named_modules(), model.modules(), strict=True):
        for key, value in vars(after).items():
            if isinstance(value, (int, tuple)) and key != "training" and vars(before).get(key) != value:
                changed.setdefault(name, {})[key] = value
    return changed


def _fill(
    model: Module, original: Module, kept: dict[str, Kept], form: Callable[[Kept, Tensor], Tensor]
) -> None:
    """Put the original's values into ``model``, in that ``form`` if something is removed."""
    values = dict(_named(original))
    for name, tensor in _named(model):
        value = values[name].detach()
        tensor.data = form(kept[name], value) if name in kept else value.clone()


def _named(model: Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _outputs(torch: ModuleType, model: Module, args: Args, kwargs: Kwargs) -> tuple[list[Tensor], int]:
    """The tensors of a pass in evaluation mode, and the multiply-accumulates of its layers."""
    counted = []

    def count(layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        elements = inputs[0].numel() if getattr(layer, "transposed", False) else output.numel()
        counted.append(elements * layer.weight[0].numel())

    with ExitStack() as hooks, torch.no_grad():
        for layer in _layers(torch, model):
            hooks.callback(layer.register_forward_hook(count).remove)
        return tensors_of(torch, model(*args, **kwargs)), sum(counted)


def _differ(torch: ModuleType, expected: list[Tensor], found: list[Tensor]) -> str:
    """Why two lists of outputs differ by more than rounding; "" if they do not."""
    if [tuple(t.shape) for t in expected] != [tuple(t.shape) for t in found]:
        return "outputs of another shape"
    for a, b in zip(expected, found, strict=True):
        if not a.is_floating_point() or not a.numel():
            continue
        size = float(a.abs().max()) or 1.0
        apart = float((a - b).abs().max()) / size
        tolerance = _TOLERANCE.get(a.device.type, _TOLERANCE_ELSEWHERE)
        if not apart <= max(tolerance, _ROUNDINGS * torch.finfo(a.dtype).eps):
            return f"outputs are {apart:.2g} of their size apart"
    return ""
