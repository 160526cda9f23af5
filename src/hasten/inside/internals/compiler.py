"""What torch.compile counts, raises and caches. Its modules are imported only when asked for."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from . import lazy_dynamo

_LEAVING = "set_code_exec_strategy", "_FrameAction", "_FrameExecStrategy"
Left = TypeVar("Left", bound=Callable[..., object])


def is_imported() -> bool:
    """Whether anything may have been compiled in this process."""
    return lazy_dynamo.NAME in sys.modules and not lazy_dynamo.is_lazy()


def graphs() -> int:
    """How many graphs were compiled in this process so far."""
    return int(_counting().counters["stats"]["unique_graphs"])


def graph_breaks() -> int:
    return sum(_counting().counters["graph_break"].values())


def seconds_compiling() -> float:
    """Seconds in this process so far, forward and backward."""
    spent = _counting().cumulative_time_spent_ns
    return float(spent.get("entire_frame_compile", 0) + spent.get("entire_backward_compile", 0)) / 1e9


def failure_kind() -> type[Exception]:
    """The class of the error raised if something cannot be compiled."""
    kind: type[Exception] = importlib.import_module("torch._dynamo.exc").TorchDynamoException
    return kind


def options_of_mode(mode: str) -> dict[str, Any]:
    """Inductor's options for one of torch.compile's modes."""
    inductor = importlib.import_module("torch._inductor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from torch's own modules as they are imported
        importlib.import_module("torch._inductor.compile_fx")
    return dict(inductor.list_mode_options(mode))


def usual_cache_folder() -> str:
    """Where inductor keeps its code unless told otherwise."""
    utils = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    return str(os.path.abspath(utils.default_cache_dir()))


def has_triton() -> bool:
    """Whether inductor's requirement on a GPU works."""
    return bool(importlib.import_module("torch.utils._triton").has_triton())


def never_compiled(function: Callable[..., object]) -> Callable[..., object]:
    """``function``, not compiled when compiled code calls it."""
    import torch

    return torch._disable_dynamo(function)  # type: ignore[attr-defined]


def left_alone(function: Left) -> Left:
    """``function``, which runs as it is where compiled code calls it between two graphs; what it calls is
    compiled as ever. In a graph it is traced like any other. Imports nothing.
    """
    frames: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if all(hasattr(frames, part) for part in _LEAVING):
        action = frames._FrameAction
        frames.set_code_exec_strategy(
            function.__code__, frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        )
    return function


def _counting() -> ModuleType:
    return importlib.import_module("torch._dynamo.utils")


def runs_compiled() -> bool:
    """Whether the current call would be compiled: it comes from a compiled function."""
    frames = sys.modules.get("torch._C._dynamo.eval_frame")
    asked = getattr(frames, "get_eval_frame_callback", None)
    return asked is not None and bool(asked())
