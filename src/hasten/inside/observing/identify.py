"""Describes what was seen as records: roots, loaders, optimizers."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from ...records.observation import Loader, Optimizer, Root
from ..internals.loaders import (
    collate_of,
    dataset_of,
    indices_of,
    keeps_workers,
    makes_batches,
    pins_memory,
    reads_indices,
    workers_of,
)
from ..internals.modules import batch_norm_kind, dropout_kind, is_compiled
from ..samples.columns import tensors_behind
from ..samples.dataset_traits import length_of, takes_items_one_by_one
from ..samples.late_dataset import puts_off
from ..samples.resizing import resizes
from .layout import lies_channels_last
from .parameter_groups import distinct_groups, why_not_merged
from .product_convolutions import may_be_product
from .repeated_blocks import repeated_blocks
from .tiny_numbers import kept_share, silent

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer as TorchOptimizer

    from ..internals.loaders import LoaderIterator

FUSED_FUNCTIONS = {  # optimizer class: (module of torch.optim, its fused function)
    "Adam": ("adam", "_fused_adam"),
    "AdamW": ("adam", "_fused_adam"),
    "SGD": ("sgd", "_fused_sgd"),
    "Adagrad": ("adagrad", "_fused_adagrad"),
}


def without_parts(modules: Sequence[Module]) -> list[Module]:
    """Those that are not part of another one of them: to be told once, and counted once. Parameters decide:
    Keras's models hold those of their layers, and not the layers.
    """
    held = [{id(p) for p in one.parameters()} for one in modules]
    within = {id(part) for one in modules for part in one.modules() if part is not one}
    return [
        one
        for one, mine in zip(modules, held, strict=True)
        if id(one) not in within and not any(mine < others for others in held)
    ]


def describe_root(torch: ModuleType, module: Module, owned: Set[int] = frozenset()) -> Root:
    """``owned``: the ids of the optimizers' parameters. Trained is what gets gradients, of these or, if there
    is no optimizer, of all.
    """
    parameters: list[Tensor] = list(module.parameters())
    mine = [p for p in parameters if id(p) in owned]
    trained = _not_frozen(mine) if owned else [p for p in parameters if p.requires_grad]
    kinds = list(module.modules())
    batch_norm = batch_norm_kind(torch)
    dropout = dropout_kind(torch)
    return Root(
        name=f"{type(module).__module__}.{type(module).__qualname__}",
        parameters=sum(p.numel() for p in parameters),
        trained=sum(p.numel() for p in trained),
        dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in parameters if not _whole(p)})),
        devices=tuple(sorted({str(p.device) for p in parameters})),
        convolutions=sum(isinstance(m, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)) for m in kinds),
        batch_norm=any(isinstance(m, batch_norm) for m in kinds),
        dropout=any(isinstance(m, dropout) and m.p > 0 for m in kinds),
        scripted=isinstance(module, torch.jit.ScriptModule),
        compiled=is_compiled(module) or any(map(is_compiled, kinds)),
        blocks=len(repeated_blocks(module)),
        channels_last=lies_channels_last(parameters),
        products=sum(isinstance(m, torch.nn.Conv2d) and may_be_product(m) for m in kinds),
    )


def _not_frozen(parameters: list[Tensor]) -> list[Tensor]:
    """Those that get gradients, or have some; all, if none does for now, as of a GAN's part while the other
    one is trained.
    """
    return [p for p in parameters if p.requires_grad or p.grad is not None] or parameters


def _whole(parameter: Tensor) -> bool:
    """Whether it counts something, as Keras's seeds and steps do: no precision of what is computed."""
    return not (parameter.is_floating_point() or parameter.is_complex())


@lru_cache(maxsize=1)
def compile_backends() -> tuple[str, ...]:
    """Backends of torch.compile from other packages, by name, without torch's own. What is installed is read
    once: that takes longer than many a step.
    """
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    return tuple(sorted({entry.name for entry in found}))


def describe_optimizer(torch: ModuleType, optimizer: TorchOptimizer, stepped: bool = True) -> Optimizer:
    """``stepped``: whether it has made a step."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return Optimizer(
        name=type(optimizer).__name__,
        parameters=sum(p.numel() for p in _not_frozen(parameters)),
        fused=any(bool(group.get("fused")) for group in optimizer.param_groups),
        can_fuse=(why := why_not_fused(torch, optimizer)) == "",
        why_not=why,
        can_foreach=can_foreach(torch, optimizer),
        groups=len(optimizer.param_groups),
        distinct_groups=distinct_groups(torch, optimizer),
        why_not_merged=why_not_merged(torch, optimizer),
        devices=tuple(sorted({str(p.device) for p in parameters})),
        stepped=stepped,
        kept=kept_share(optimizer),
        silent=silent(torch, parameters),
    )


def can_foreach(torch: ModuleType, optimizer: TorchOptimizer) -> bool:
    """Whether torch's update of all tensors at once (foreach) would work and is not the default."""
    kind = type(optimizer)
    if kind is not getattr(torch.optim, kind.__name__, None) or foreach_function(optimizer) is None:
        return False
    return all(
        "foreach" in group
        and group["foreach"] is None
        and not any(group.get(flag) for flag in ("fused", "capturable", "differentiable"))
        and all(p.device.type == "cpu" and p.is_floating_point() for p in group["params"])
        for group in optimizer.param_groups
    )


def foreach_function(optimizer: TorchOptimizer) -> tuple[str, str] | None:
    """(module of torch.optim, its foreach function) for an optimizer of torch's; None if there is none."""
    name = type(optimizer).__name__
    module = FUSED_FUNCTIONS[name][0] if name in FUSED_FUNCTIONS else name.lower()
    function = f"_multi_tensor_{module}"
    try:
        has = hasattr(importlib.import_module(f"torch.optim.{module}"), function)
    except ImportError:
        return None
    return (module, function) if has else None


def why_not_fused(torch: ModuleType, optimizer: TorchOptimizer, sparse: Set[int] = frozenset()) -> str:
    """Why torch's fused update does not work for this optimizer; "" if it does. ``sparse``: the ids of
    parameters that will get sparse gradients, in addition to those that have one now.
    """
    name = type(optimizer).__name__
    if name not in FUSED_FUNCTIONS or type(optimizer) is not getattr(torch.optim, name, None):
        return f"{name} has no fused form in torch"
    for group in optimizer.param_groups:
        for flag in ("foreach", "capturable", "differentiable"):
            if group.get(flag):
                return f"the script asked for {flag}=True"
        for p in group["params"]:
            if not p.is_floating_point() or p.device.type not in ("cpu", "cuda", "xpu", "mps"):
                return f"a parameter of type {p.dtype} on {p.device} cannot be updated by the fused form"
            if id(p) in sparse or (p.grad is not None and p.grad.is_sparse):
                return "the fused form takes no sparse gradients"
        if name == "Adagrad" and any(p.device.type != "cpu" for p in group["params"]):
            return "fused Adagrad exists on CPU only"
    return ""


def sparsely_trained(torch: ModuleType, roots: Iterable[Module]) -> set[int]:
    """The ids of the embeddings' weights that get sparse gradients."""
    kinds = torch.nn.Embedding, torch.nn.EmbeddingBag
    return {id(m.weight) for root in roots for m in root.modules() if isinstance(m, kinds) and m.sparse}


def describe_loader(iterator: LoaderIterator, training: bool, sample_bytes: int | None) -> Loader:
    """The record of a DataLoader, from its iterator, which knows the loader's arguments."""
    import torch

    dataset = dataset_of(iterator)
    iterable = not reads_indices(iterator)
    return Loader(
        dataset=type(dataset).__name__,
        samples=None if iterable else length_of(dataset),
        batch_size=getattr(indices_of(iterator), "batch_size", None),
        workers=workers_of(iterator),
        iterable=iterable,
        pin_memory=pins_memory(iterator),
        training=training,
        default_fetch=not iterable and makes_batches(iterator) and takes_items_one_by_one(dataset),
        sample_bytes=sample_bytes,
        default_collate=collate_of(iterator) is torch.utils.data.default_collate,
        in_memory=tensors_behind(torch, dataset, ()) is not None,
        keeps_workers=keeps_workers(iterator),
        pictures=not iterable and puts_off(torch, dataset),
        resizes=resizes(dataset),
    )
