"""Whether all ranks of a script's own process group go on from the same step: their hosts may not share the
folder, or a file system may be late to show what another host has written.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ...records.run_checkpoints import RunCheckpoints
from ..seams import Call, Seams
from .cannot import Diverged

_KEY = "hasten/checkpoint"


class SameStep:
    """``step``: from which this rank goes on, 0 for the beginning. ``stop`` gets why the ranks cannot go on
    together, and does not return.
    """

    def __init__(self, asked: RunCheckpoints, step: int, stop: Callable[[Exception], None]) -> None:
        self._asked, self._step, self._stop = asked, step, stop
        self._told = False

    def install(self, torch: ModuleType, seams: Seams) -> None:
        dist = torch.distributed
        if self._asked.ranks > 1 and dist.is_available():
            for owner in (dist, dist.distributed_c10d):
                seams.replace(owner, "init_process_group", self._around)

    def _around(self, original: Call) -> Call:
        def init_process_group(*given: object, **more: object) -> None:
            original(*given, **more)
            self._compare()

        return init_process_group

    def _compare(self) -> None:
        import torch.distributed as dist

        from ..internals.groups import meeting_store

        if self._told or dist.get_world_size() != self._asked.ranks:
            return
        self._told = True
        store = meeting_store()
        if store is None:
            return
        store.set(f"{_KEY}/{self._asked.rank}", str(self._step))
        steps = [int(store.get(f"{_KEY}/{rank}")) for rank in range(self._asked.ranks)]
        if len(set(steps)) > 1:
            found = ", ".join(f"rank {rank}: {step or 'none'}" for rank, step in enumerate(steps))
            self._stop(
                Diverged(
                    f"the ranks found checkpoints of different steps in {self._asked.folder} ({found}), so "
                    "not all hosts see the same folder, or not yet: if they share it, start again"
                )
            )
