"""How many steps of a running training a live comparison needs, timed and untimed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .abba_blocks import least
from .steps import Rhythm

BLOCKS = 4  # of an ABBA block
_TIMED_IF_SLOW = 1  # cycles of each block
_SETTLING_CYCLES = 3  # untimed, the first time a worker trains under a plan; 1 if the script is very short
_WARMUP_STEPS = 10
_AHEAD = 2  # batches that each worker makes ahead, unless the script says otherwise
_LEAST_TIMES = 5  # times the last batches, that a pass has
_BESIDES = 3  # cycles at a pass's ends besides its last batches: the discarded one, its first and its second
_LONG_BLOCK_SECONDS = 3.0
_LEAST_BLOCKS, _MANY_BLOCKS = 2, 8  # in a pass, to leave out its ends: many where a block may be all ends


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
                return cls(rhythm, found.warmup, found.settling, found._fitting_passes(block))
        return found

    def _fitting_passes(self, block: int) -> int:
        """Steps of a block of at least so many, where worker processes make the batches: steps at a pass's
        ends take other times. Enough that others are left, or whole passes where these are short: then all
        blocks have as many of them. As it was where that takes too long.
        """
        rhythm, epoch, last = self.rhythm, self.rhythm.epoch_steps, _AHEAD * self.rhythm.bursts
        if not last or not epoch or replace(self, block=block).leaves_out_ends:
            return block
        larger = max(block, (_BESIDES + last + rhythm.fewer(2, 1)) * rhythm.cycle)
        if replace(self, block=larger).leaves_out_ends and self._affords(larger, block):
            return larger
        whole = math.ceil(block / epoch) * epoch
        return whole if not epoch % rhythm.cycle and self._affords(whole, block) else block

    def _affords(self, longer: int, block: int) -> bool:
        """Whether blocks of so many steps fit into the script, and do not take long for it."""
        rhythm, length = self.rhythm, self.rhythm.steps_in_all
        seconds = longer * rhythm.cycle_seconds / rhythm.cycle
        fits = length is None or BLOCKS * longer + self.untimed <= length
        return fits and (longer < _LEAST_BLOCKS * block or seconds <= _LONG_BLOCK_SECONDS)

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
        rhythm, last = self.rhythm, _AHEAD * self.rhythm.bursts
        left = self.block // rhythm.cycle - _BESIDES - last
        blocks = _LEAST_BLOCKS if left >= rhythm.fewer(2, 1) else _MANY_BLOCKS
        epoch = rhythm.epoch_steps
        return epoch is not None and epoch >= max(blocks * self.block, _LEAST_TIMES * last)

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
