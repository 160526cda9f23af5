"""A worker that is one of several ranks whose script makes its process groups itself."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..job import Job
from ..process import stacks
from ..seams import Seams
from . import bindings

if TYPE_CHECKING:
    from ..distributed.roll_call import Rolls


class OwnGroups:
    """Nothing of it happens in a worker that is none, except that all ranks tell where they stand."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rolls: Rolls | None = None

    def begin(self) -> None:
        """Before the script starts."""
        if self._job.ranks is not None or self._job.own_group is not None:
            stacks.answer()
        if self._job.own_group is not None:
            bindings.stand_in()

    def torch_came(self, torch: ModuleType) -> None:
        """What it puts in place stays, even if our watching fails."""
        own = self._job.own_group
        if own is None or not torch.distributed.is_available():
            return
        from ..distributed.own_group import find_backends

        find_backends(Seams(), own)
        if self._job.descriptor is None:  # in a trial, the coordinator notices failures
            from ..distributed.roll_call import Rolls

            self._rolls = Rolls(Seams())

    def script_failed(self, error: BaseException) -> None:
        if self._rolls is not None:
            self._rolls.script_failed(error)
