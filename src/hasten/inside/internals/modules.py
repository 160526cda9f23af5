"""How torch calls a module, and what a module holds."""

from __future__ import annotations

from typing import Any

SAVE, LOAD = "_save_to_state_dict", "_load_from_state_dict"  # of a module's own parameters and buffers


def plain_call(module: Any) -> Any:
    """Calls ``forward`` with the module's hooks, whatever stands in its ``compiled_call``."""
    return module._call_impl


def compiled_call(module: Any) -> Any:
    """What torch calls in place of ``plain_call``; None for nothing. It is never copied, pickled or saved."""
    return module._compiled_call_impl


def put_call(module: Any, call: Any) -> None:
    """Make ``call`` the module's ``compiled_call``, past the module's own ``__setattr__``: wrappers
    (Lightning Fabric's) pass attributes on to what they wrap.
    """
    object.__setattr__(module, "_compiled_call_impl", call)


def has_forward_hooks(module: Any) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def has_hooks(module: Any) -> bool:
    return has_forward_hooks(module) or bool(module._backward_hooks or module._backward_pre_hooks)


def count_hooks(module: Any) -> tuple[int, int, int]:
    """The numbers of forward hooks, forward pre-hooks and backward hooks."""
    return len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks)


def own_parameters(module: Any) -> dict[str, Any]:
    """By their names, None included; those of its parts are not among them."""
    parameters: dict[str, Any] = module._parameters
    return parameters


def own_buffers(module: Any) -> dict[str, Any]:
    buffers: dict[str, Any] = module._buffers
    return buffers


def has_parts(module: Any) -> bool:
    return bool(module._modules)


def is_compiled(module: Any) -> bool:
    """Whether ``torch.compile`` made it, of another module."""
    return hasattr(module, "_orig_mod")


def batch_norm_kind(torch: Any) -> Any:
    """The base class of all kinds of batch norm, of any number of dimensions."""
    return torch.nn.modules.batchnorm._BatchNorm


def norm_kind(torch: Any) -> Any:
    """The base class of what has running statistics: batch norm and instance norm."""
    return torch.nn.modules.batchnorm._NormBase


def dropout_kind(torch: Any) -> Any:
    return torch.nn.modules.dropout._DropoutNd


def convolution_kind(torch: Any) -> Any:
    return torch.nn.modules.conv._ConvNd
