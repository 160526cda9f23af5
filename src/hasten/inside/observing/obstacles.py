"""What keeps us from following a training: found while it runs, and reported with what to do."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, TypeGuard

from ..internals.modules import calls_compiled, file_of_calls

if TYPE_CHECKING:
    from torch.nn import Module

_FRAMES = 40  # how far up the stack to search for a direct call


def obstacle_at(torch: ModuleType, module: Module) -> str:
    """Why ``module``, just called from outside any known root, cannot be followed; "" if it can."""
    if isinstance(module, torch.jit.ScriptModule):
        return (
            f"the model is a TorchScript module ({module.original_name}): its passes run outside Python, "
            "where nothing can be seen or switched. Train the plain module; torch.compile(model) is what "
            "replaces torch.jit.script"
        )
    outer, where = called_directly(torch, module)
    if outer is not None:
        return calls_forward(type(outer).__name__, where)
    return ""


def may_help(torch: ModuleType, module: Module) -> bool:
    """Whether a module that is not trained can be followed where it takes part in the steps of others, and
    computes in their usual precision. Otherwise it is left as it is.
    """
    if any(p.dtype != torch.float32 for p in module.parameters()):
        return False
    return not (any(map(calls_compiled, module.modules())) or obstacle_at(torch, module))


def calls_forward(kind: str, where: str) -> str:
    """``where``: the line that does so. ``kind``: the module's class."""
    return (
        f"{where} calls {kind}.forward(...) directly, not {kind}.__call__, where hasten and the module's "
        "own hooks are. Call the module instead: model(x) in place of model.forward(x)"
    )


def several_threads(names: str) -> str:
    """``names``: of the threads that train."""
    return (
        f"the script trains in several threads at the same time ({names}), so their steps are mixed up. "
        "Name a script that trains one model after another"
    )


def wraps_for_ranks(torch: ModuleType, module: Module) -> bool:
    """Whether it wraps a model only to average its gradients over ranks."""
    return isinstance(module, torch.nn.parallel.DistributedDataParallel)


def called_directly(torch: ModuleType, module: Module) -> tuple[Module | None, str]:
    """The module around ``module`` whose ``forward`` was called directly, and the line that did so.

    Every call of a module goes through our seam. So an outer module whose ``forward`` is on the stack,
    outside any root, was not called as a module, or it is not what is trained.
    """
    found: Module | None = None
    frame, where = sys._getframe(1), ""
    of_calls = file_of_calls(torch)
    for _ in range(_FRAMES):
        code = frame.f_code
        if code.co_name == "forward" and code.co_argcount:
            owner = frame.f_locals.get(code.co_varnames[0])
            if _is_around(torch, owner, module):
                caller = frame.f_back
                if caller is None or caller.f_code.co_filename != of_calls:
                    found, where = owner, _place(caller)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return found, where


def _place(caller: FrameType | None) -> str:
    return f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller is not None else "the script"


def _is_around(torch: ModuleType, owner: object, module: Module) -> TypeGuard[Module]:
    if not isinstance(owner, torch.nn.Module) or owner is module or wraps_for_ranks(torch, owner):
        return False
    return _holds(owner, module)


def _holds(outer: Module, module: Module) -> bool:
    return any(inner is module for inner in outer.modules())
