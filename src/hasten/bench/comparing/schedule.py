"""How many steps of a running training a live comparison needs, timed and untimed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .abba_blocks import least
from .steps import Rhythm

BLOCKS = 4  # of an ABBA block
_TIMED_IF_SLOW = 1  # cycles of each block
_SETTLING_CYCLES = 3  # untimed, the first time a worker trains under a plan; 1 if the script is very short
_WARMUP_STEPS = 10
_AHEAD = 2  # batches that each worker makes ahead, unless the script says otherwise
_LEAST_TIMES = 5  # times the last batches, that a pass has
_BLOCKS_IN_EPOCH = 2  # ABBA blocks, at least, to leave out those at its end


@dataclass(frozen=True)
class Schedule:
    """Steps: ``warmup`` of a worker after its first, ``settling`` the first time it trains under a plan, and
    ``block`` of a timed block; 0 if the script is too short for any.
    """

    rhythm: Rhythm
    warmup: int
    settling: int
    block: int

    @classmethod
    def of(cls, rhythm: Rhythm) -> Schedule:
        """Fewer steps are untimed only where the script has too few otherwise."""
        warmup = rhythm.warmup_steps(min(_WARMUP_STEPS, rhythm.warmup_cycles * rhythm.cycle))
        for steps, cycles in ((warmup, _SETTLING_CYCLES), (warmup, 1), (1, 1)):
            found = cls(rhythm, steps, cycles * rhythm.cycle, 0)
            if block := rhythm.block_steps(BLOCKS, found.untimed, _TIMED_IF_SLOW):
                return cls(rhythm, found.warmup, found.settling, block)
        return found

    @property
    def untimed(self) -> int:
        """Of a worker that compares two plans."""
        return 1 + self.warmup + 2 * self.settling

    @property
    def leaves_out_ends(self) -> bool:
        """Whether blocks are timed without the ends of a pass: its last batches, in which worker processes of
        a loader have nothing left to do, and its second, while they make many at once. These steps may take
        half as long, or several times, and whose block they fall into is chance. Not where hardly any block
        would be left: in short passes, or where many workers make batches ahead.
        """
        epoch, last = self.rhythm.epoch_steps, _AHEAD * self.rhythm.bursts
        return epoch is not None and epoch >= max(_BLOCKS_IN_EPOCH * BLOCKS * self.block, _LEAST_TIMES * last)

    @property
    def too_short(self) -> str:
        """Why the script is, if it is too short for any block."""
        return self.rhythm.too_short(BLOCKS, self.untimed, _TIMED_IF_SLOW)

    def processes(self, wait: int = 0) -> int:
        """Of a comparison, each of which has to ``wait`` for so many steps first: a short script ends before
        it has enough ABBA blocks.
        """
        length, each = self.rhythm.steps_in_all, BLOCKS * self.block
        if length is None or not each:
            return 1
        return math.ceil(least(self.rhythm) / max(1, (length - self.untimed - wait) // each))

    def least_steps(self, starts: int) -> int:
        """Of a comparison in whose time so many processes start."""
        blocks = BLOCKS * least(self.rhythm) * self.block
        return starts * (1 + self.warmup) + self.processes() * self.settling + blocks
