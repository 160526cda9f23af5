"""What ``hasten run --checkpoint`` asks of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunCheckpoints:
    """``folder`` is absolute. One of ``every_seconds`` and ``every_steps`` is above zero. ``keep``: how many
    checkpoints stay. ``seed``: of the first run, for generators that the script does not seed itself.
    """

    folder: str
    every_seconds: float = 0.0
    every_steps: int = 0
    keep: int = 2
    seed: int = 0
