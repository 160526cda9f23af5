"""What a tune within a run needs from the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...records.facts import Facts
from ...records.plan import Plan
from ..observing.raw_step import RawStep


class Run(Protocol):
    """The run that trains in this process."""

    def facts(self, steps: Sequence[RawStep], cycle: int) -> Facts:
        """What is known of the training now, with these ``steps``, which repeat after ``cycle`` of them."""
        ...

    def adopt(self, plan: Plan) -> None:
        """Put ``plan`` in force, also for models and optimizers that are trained later."""
        ...

    def let_go(self) -> None:
        """Remove hasten from the script, which goes on as without it: no plan will be in force any more."""
        ...

    def sync(self) -> bool:
        """Wait for the GPU to finish. False if the training is not on one."""
        ...

    def say(self, text: str) -> None: ...
