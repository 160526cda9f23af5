"""What ``hasten run --checkpoint`` asks of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RunCheckpoints:
    """``folder`` is absolute, and shared by all ``ranks``; ``rank`` is this process's. One of
    ``every_seconds`` and ``every_steps`` is above zero. ``keep``: how many checkpoints stay. ``seed``: of the
    first run, for generators that the script does not seed itself.
    """

    folder: str
    every_seconds: float = 0.0
    every_steps: int = 0
    keep: int = 2
    seed: int = 0
    rank: int = 0
    ranks: int = 1

    def of_rank(self, rank: int, ranks: int) -> RunCheckpoints:
        return replace(self, rank=rank, ranks=ranks)

    @property
    def folders(self) -> tuple[str, ...]:
        """Of all ranks, by number. One process alone keeps its checkpoints in ``folder`` itself."""
        if self.ranks == 1:
            return (self.folder,)
        return tuple(os.path.join(self.folder, f"rank-{rank}") for rank in range(self.ranks))

    @property
    def own_folder(self) -> str:
        return self.folders[self.rank]

    @property
    def own_seed(self) -> int:
        """Ranks whose script seeds nothing draw different numbers, as they do without us."""
        return (self.seed + self.rank) % 2**62
