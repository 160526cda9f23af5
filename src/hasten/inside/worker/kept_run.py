"""A run whose checkpoints are kept, as a worker sees it: with or without a plan, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ..job import Job
from ..seams import Seams
from ..source_files import SourceFiles
from ..training import Training
from .under_plan import UnderPlan

if TYPE_CHECKING:
    from ..checkpoints.restartable_run import Keeper


class KeptRun:
    """Does nothing where no checkpoints are asked for."""

    def __init__(self, job: Job, seams: Seams, sources: SourceFiles) -> None:
        self._keeper: Keeper | None = None
        if job.checkpoints is not None:
            from ..checkpoints.restartable_run import Keeper

            self._keeper = Keeper(job, job.checkpoints, seams, sources)

    @property
    def is_played_back(self) -> bool:
        """Whether the script is on its way to the step where it stopped, and computes nothing."""
        return self._keeper is not None and self._keeper.plays

    def begin(self) -> None:
        """Before anything of the script runs."""
        if self._keeper is not None:
            self._keeper.begin()

    def torch_came(self, torch: ModuleType) -> None:
        if self._keeper is not None:
            self._keeper.torch_came(torch)

    def under_plan(self, training: Training, told: UnderPlan, steps: Callable[[], int]) -> None:
        """The run has a plan, which tells ``told`` what it does. ``steps``: how many have ended."""
        if self._keeper is None:
            return
        self._keeper.course_seams.join(training)
        training.plays_back = lambda: self.is_played_back
        if training.this_rank is not None:
            self._keeper.roles.follow(training.this_rank)
        if self._keeper.plays:
            told.wait()
            self._keeper.on_landing = lambda: told.goes_on(steps())

    def watching_failed(self, why: str) -> None:
        """The seams are undone. Ends the process where it computes nothing yet."""
        if self._keeper is not None:
            self._keeper.watching_failed(why)

    def script_ended(self, error: BaseException | None) -> None:
        """By itself, or with ``error``."""
        if self._keeper is not None:
            self._keeper.script_ended(error)
