"""How torch calls a module, and what a module holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.modules.dropout import _DropoutNd

FUNCTIONAL_CALL = "_functional_call"  # in torch.nn.utils.stateless: what torch.func.functional_call calls
SAVE, LOAD = "_save_to_state_dict", "_load_from_state_dict"  # of a module's own parameters and buffers


def plain_call(module: Module) -> Callable[..., Any]:
    """Calls ``forward`` with the module's hooks, whatever is in its ``compiled_call``."""
    return module._call_impl


def compiled_call(module: Module) -> Callable[..., Any] | None:
    """What torch calls instead of ``plain_call``, or None. Not in a state_dict; in copies and pickles only of
    classes that say themselves what is pickled.
    """
    return module._compiled_call_impl


def holds_call(owner: object, call: object) -> bool:
    """Whether that is its own ``compiled_call``."""
    return getattr(owner, "__dict__", {}).get("_compiled_call_impl") is call


def put_call(module: Module, call: Callable[..., object] | None) -> None:
    """Make ``call`` the module's ``compiled_call``, bypassing its ``__setattr__``: wrappers
    (Lightning Fabric's) pass attributes on to what they wrap.
    """
    object.__setattr__(module, "_compiled_call_impl", call)


def holder_of(module: Module) -> Module:
    """The smallest part of it that has all its parameters: of a loss that holds a model, the model."""
    while not any(parameter is not None for parameter in own_parameters(module).values()):
        holding = [part for part in module.children() if next(part.parameters(), None) is not None]
        if len(holding) != 1:
            break
        (module,) = holding
    return module


@contextmanager
def as_without_calls(module: Module, kind: type) -> Iterator[None]:
    """Meanwhile nothing of this ``kind`` is the ``compiled_call`` of the module or of a part of it."""
    name = "_compiled_call_impl"
    taken = [(one, vars(one)[name]) for one in module.modules() if isinstance(vars(one).get(name), kind)]
    for one, _ in taken:
        object.__delattr__(one, name)
    try:
        yield
    finally:
        for one, call in taken:
            put_call(one, call)


def has_forward_hooks(module: Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def has_hooks(module: Module) -> bool:
    return has_forward_hooks(module) or bool(module._backward_hooks or module._backward_pre_hooks)


def file_of_calls(torch: ModuleType) -> str | None:
    """Where ``__call__`` calls ``forward`` from."""
    return torch.nn.modules.module.__file__  # type: ignore[no-any-return]


def has_global_hooks(torch: ModuleType) -> bool:
    """Whether all modules have some."""
    return bool(torch.nn.modules.module._has_any_global_hook())


def count_hooks(module: Module) -> tuple[int, int, int]:
    """The numbers of forward hooks, forward pre-hooks and backward hooks."""
    return len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks)


def newest_hook(torch: ModuleType) -> int:
    """Grows with each hook that is registered anywhere."""
    return int(torch.utils.hooks.RemovableHandle.next_id)


def hook_numbers(module: Module) -> tuple[int, ...]:
    """The numbers, each given once, of the hooks of a module and its parts."""
    return tuple(
        number
        for one in module.modules()
        for hooks in (
            one._forward_hooks,
            one._forward_pre_hooks,
            one._backward_hooks,
            one._backward_pre_hooks,
        )
        for number in hooks
    )


def has_gradient_hook(parameter: Tensor) -> bool:
    """Whether a hook gets its gradient whenever one is computed."""
    hooks: Any = parameter._backward_hooks
    return bool(hooks)


def own_parameters(module: Module) -> dict[str, Tensor | None]:
    """A module's parameters by name, None included, without those of its children."""
    parameters: dict[str, Any] = module._parameters  # a substitute for a parameter is put there, too
    return parameters


def own_buffers(module: Module) -> dict[str, Tensor | None]:
    return module._buffers


def part(module: Module, name: str) -> Module | None:
    """The module's own part of this name."""
    return module._modules.get(name)


def has_parts(module: Module) -> bool:
    return bool(module._modules)


def is_compiled(module: Module) -> bool:
    """Whether ``torch.compile`` made it from another module."""
    return hasattr(module, "_orig_mod")


def calls_compiled(module: Module) -> bool:
    """Whether a call of it runs what ``torch.compile`` has made of it, in place too."""
    call = compiled_call(module)
    by_script = getattr(call, "compiled_by_script", call)  # our own slot may wrap it
    return by_script is not None or is_compiled(module)


def batch_norm_kind(torch: ModuleType) -> type[_BatchNorm]:
    """The base class of all kinds of batch norm, of any number of dimensions."""
    kind: type[_BatchNorm] = torch.nn.modules.batchnorm._BatchNorm
    return kind


def norm_kind(torch: ModuleType) -> type[_NormBase]:
    """The base class of layers with running statistics: batch norm and instance norm."""
    kind: type[_NormBase] = torch.nn.modules.batchnorm._NormBase
    return kind


def dropout_kind(torch: ModuleType) -> type[_DropoutNd]:
    kind: type[_DropoutNd] = torch.nn.modules.dropout._DropoutNd
    return kind


def convolution_kind(torch: ModuleType) -> type[_ConvNd]:
    kind: type[_ConvNd] = torch.nn.modules.conv._ConvNd
    return kind
