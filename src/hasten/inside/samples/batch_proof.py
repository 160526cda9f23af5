"""Proof that a loader's first batch is all that making it leaves behind, in whichever process it is made.

A forked child makes the batch twice. The second time it may change nothing that the data set and the collate
function are or reach (``visible_state``): worker processes change copies. Nor may it need what two processes
cannot read at once: the child has no connections, and looks whether it reads from files that are open for
writing, too. The first time is for what is opened or computed on first use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..internals.loaders import first_batch
from ..living import Living
from .forked_filling import shared_descriptors
from .sampling_proof import drawn_apart
from .visible_state import difference, visible_state

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_SAMPLES = 8  # of the batch; all where fewer do not make one


class BatchProofs:
    """One for each data set and collate function."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._found: Living[dict[object, str]] = Living()

    def why_not(self, loader: DataLoader[Any]) -> str:
        """Why another process may not make its batches; "" if it may."""
        found = self._found.get(loader.dataset)
        if found is None:
            found = {}
            self._found.put(loader.dataset, found)
        key = _kind_of(loader.collate_fn)
        if key not in found:
            found[key] = self._proven(loader)
        return found[key]

    def _proven(self, loader: DataLoader[Any]) -> str:
        return drawn_apart(self._torch, loader.dataset, lambda: (_examined(loader), 0))[0]


def _kind_of(function: Any) -> object:
    """Its code, or its class: nothing that keeps what it belongs to alive."""
    return getattr(function, "__code__", None) or type(function)


# ---- in the child
def _examined(loader: DataLoader[Any]) -> str:
    name = type(loader.dataset).__name__
    files = dict(_own_offsets())
    try:
        make = first_batch(loader, _SAMPLES)
        batch = make()
    except StopIteration:
        return ""
    except Exception:
        make = first_batch(loader)
        batch = make()
    before = visible_state(loader.dataset, loader.collate_fn, lenient=True)
    make()
    changed = difference(before, visible_state(loader.dataset, loader.collate_fn, lenient=True))
    if changed:
        return f"making a batch of {name} changes {changed}, of which worker processes have copies"
    for number, offset in files.items():
        if os.lseek(number, 0, os.SEEK_CUR) != offset:
            path = os.readlink(f"/proc/self/fd/{number}")
            return f"samples of {name} are read from {path}, which is open for writing, too"
    try:
        ForkingPickler.dumps(batch)
    except Exception as error:
        return f"a batch of {name} cannot be sent by another process: {error}"
    return ""


def _own_offsets() -> Iterator[tuple[int, int]]:
    """Open again what two processes cannot read at once, files at the offsets that are given; connections are
    replaced by nothing.
    """
    for number in shared_descriptors():
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
        with suppress(OSError):
            offset = os.lseek(number, 0, os.SEEK_CUR) if is_file else 0
            opened = os.open(f"/proc/self/fd/{number}" if is_file else os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            os.close(opened)
            if is_file:
                os.lseek(number, offset, os.SEEK_SET)
                yield number, offset
