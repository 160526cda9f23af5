"""What a tune within a run asks of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...records.facts import Facts
from ...records.plan import Plan
from ..observing.observer import RawStep


class Run(Protocol):
    """That trains in this process."""

    def facts(self, steps: Sequence[RawStep], cycle: int) -> Facts:
        """As the training is seen now."""
        ...

    def adopt(self, plan: Plan) -> None:
        """Put ``plan`` in force, for what is trained later, too."""
        ...

    def let_go(self) -> None:
        """Nothing is in force, nor will be: the script goes on as without hasten."""
        ...

    def sync(self) -> bool:
        """Wait for the GPU; False where the training is not on one."""
        ...

    def say(self, text: str) -> None: ...
