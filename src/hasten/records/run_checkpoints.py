"""What ``hasten run --checkpoint`` asks of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RunCheckpoints:
    """``folder`` is absolute, and shared by all ``ranks``; ``rank`` is this process's. One of
    ``every_seconds`` and ``every_steps`` is above zero. ``keep``: how many checkpoints stay. ``seed``: of the
    first run, for generators that the script does not seed itself. ``alike``: the ranks are ours, and train
    as one process; all but rank 0 have what they write put aside.
    """

    folder: str
    every_seconds: float = 0.0
    every_steps: int = 0
    keep: int = 2
    seed: int = 0
    rank: int = 0
    ranks: int = 1
    alike: bool = False

    def of_rank(self, rank: int, ranks: int, alike: bool = False) -> RunCheckpoints:
        return replace(self, rank=rank, ranks=ranks, alike=alike)

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
        """Ranks of a script's own draw different numbers if it seeds nothing, as they do without us."""
        return (self.seed + (0 if self.alike else self.rank)) % 2**62
