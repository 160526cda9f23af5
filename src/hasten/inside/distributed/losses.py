"""Gives the losses that a script uses or prints afterwards the value over the global batch.

The tensor that backward is called on is often not the one that is printed: it was scaled, or divided by the
steps of accumulation. So the numbers it was computed from are made global, too, if they are in local
variables of the functions that called backward.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TypeGuard

import torch
from torch.autograd.graph import Node

from ..package import INSIDE

MOST = 8  # losses made global at once: how many fit the ranks' message
_NODES = 64  # of the graph behind a loss that are examined
_FRAMES = 4  # of the script's and its libraries' functions
HERE = INSIDE + os.sep
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def losses_at(given: object) -> list[torch.Tensor]:
    """Tensors of one number: those that backward was called on, ``given``, and those that they come from, in
    the calling functions' variables. The same in all ranks that run the same script.
    """
    roots = [t for t in (given if isinstance(given, (list, tuple)) else (given,)) if _is_number(t)]
    behind = _behind([root.grad_fn for root in roots])
    found = list(roots)
    for frame in callers():
        for value in list(frame.f_locals.values()):
            if _is_number(value) and value.grad_fn in behind and all(value is not one for one in found):
                found.append(value)
    return found[:MOST]


def make_global(losses: Sequence[torch.Tensor], values: Sequence[float]) -> None:
    """Not through autograd, whose graph is already freed."""
    with torch.no_grad():
        for loss, value in zip(losses, values, strict=False):
            loss.data.fill_(value)


def _is_number(value: object) -> TypeGuard[torch.Tensor]:
    return (
        torch.is_tensor(value)
        and value.grad_fn is not None
        and value.numel() == 1
        and value.is_floating_point()
    )


def _behind(nodes: list[Node | None]) -> set[Node | None]:
    """The nodes of a graph nearest to its ends."""
    found: dict[Node | None, None] = {}
    waiting = list(nodes)
    while waiting and len(found) < _NODES:
        node = waiting.pop(0)
        if node is not None and node not in found:
            found[node] = None
            waiting += [before for before, _ in node.next_functions]
    return set(found)


def callers() -> list[FrameType]:
    """The functions that led here, nearest first, without ours and torch's."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < _FRAMES:
        if not frame.f_code.co_filename.startswith((HERE, TORCH)):
            found.append(frame)
        frame = frame.f_back
    return found
