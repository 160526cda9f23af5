"""What a forked child of a process that uses CUDA must not do: destroy an object of CUDA's, such as an event.
That ends the child ("CUDA error: initialization error", seen with torch 2.11). A loader's worker does not
mean to, but Python's collector finds garbage from before the fork there, ours or the script's. So a child
begins with all that it was born with frozen: it is never collected there.

Source: https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import os
from types import ModuleType

from . import collector


class _Spared:
    """The collector does not run between the fork and the freezing."""

    def __init__(self, torch: ModuleType) -> None:
        self._cuda = torch.cuda
        self._in_use = self._paused = False
        os.register_at_fork(before=self._before, after_in_parent=self._go_on, after_in_child=self._in_child)

    def _before(self) -> None:
        self._in_use = self._in_use or self._cuda.is_initialized()
        self._paused = self._in_use and collector.is_enabled()
        if self._paused:
            collector.disable()

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            collector.enable()

    def _in_child(self) -> None:
        self.freeze()
        self._go_on()

    def freeze(self) -> None:
        if self._in_use:
            collector.freeze()


_spared: list[_Spared] = []


def spare_cuda_objects(torch: ModuleType) -> None:
    """In all children that this process forks from now on."""
    if not _spared and hasattr(os, "register_at_fork"):
        _spared.append(_Spared(torch))


def freeze_again() -> None:
    """After objects were thawed in a child."""
    for spared in _spared:
        spared.freeze()
