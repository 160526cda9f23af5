"""Which child processes are a DataLoader's workers, which never learn about files."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import weakref
from typing import Any

from ...internals.loaders import WORKER_LOOP
from ...seams import Call, Seams


class ChildProcesses:
    """Child processes of this one, from now on, until the seams are undone."""

    def __init__(self) -> None:
        self._workers: weakref.WeakSet[Any] = weakref.WeakSet()

    def watch(self, seams: Seams) -> None:
        seams.replace(multiprocessing.process.BaseProcess, "start", self._around_start)

    def only_workers(self) -> bool:
        """Whether all living ones are a DataLoader's."""
        return all(child in self._workers for child in multiprocessing.active_children())

    def _around_start(self, original: Call) -> Call:
        def start(process: Any) -> object:
            target = getattr(process, "_target", None)  # it is gone once the process was started
            module = str(getattr(target, "__module__", ""))
            if getattr(target, "__name__", "") == WORKER_LOOP and module.startswith("torch.utils.data."):
                self._workers.add(process)
            return original(process)

        return start
