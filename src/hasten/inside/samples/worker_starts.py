"""How a loader's worker processes are started, and whether our code can run in them."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from ..package import PACKAGE
from .loader_override import context_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


def can_run_ours(loader: DataLoader[Any]) -> bool:
    """Whether its workers are forks, or would import this hasten."""
    return _method(context_of(loader)) == "fork" or _importable()


def _method(context: Any) -> str:
    import torch

    method = context if isinstance(context, str) or context is None else context.get_start_method()
    return str(method or torch.multiprocessing.get_start_method())


def _importable() -> bool:
    found = PathFinder.find_spec("hasten", sys.path)
    if found is None or found.origin is None:
        return False
    return os.path.realpath(os.path.dirname(found.origin)) == os.path.realpath(PACKAGE)
