"""Blocks of steps that other programs disturbed are set aside, and what follows waits for quiet.

This is decided by who used the processors, never by how long a block took: so nothing is chosen by its
result. Other programs disturb if no CPU is left for them. Only a limited time goes into that; after it,
nothing is measured again. Then only undisturbed blocks, and pairs of processes, count if there are enough of
them (``abba_blocks``, ``pair``); otherwise blocks count as measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...records.caution import Caution, Disturbance
from ...records.processor_time import ProcessorTime

_LEAST_CPUS = 0.1  # that others must use to disturb
_LEAST_SECONDS = 0.04  # of others' time: the kernel counts in hundredths of a second, per CPU and process
_SPARE_CPUS = 0.5  # with this many idle, nothing is disturbed
_STOPPED_SHARE = 0.05  # share of a block in which a quota stopped us
_OURS = 0.9  # of the quota: a process that uses this much is throttled by its own use
_LOOK_SECONDS = 0.4
_FEW_BLOCKS = 16  # two comparisons
_GONE_BLOCKS, _LONG_SECONDS = 3, 0.1  # without others, so long each: these have ended
_LONGEST_WAIT_SECONDS = 5.0  # a program that runs longer will not end soon

Reading = Callable[[], ProcessorTime | None]


class Quiet:
    """``read``: reads who used the processors until now, None if unknown: then nothing is ever
    set aside. ``cpus``: on how many we may run; ``quota``: of this many CPUs' time, None without one.

    ``patience``: seconds that may go into waiting and into blocks that are set aside.
    """

    def __init__(
        self,
        read: Reading = lambda: None,
        cpus: int = 1,
        quota: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = read
        self._cpus = cpus
        self._quota = quota
        self._sleep = sleep
        self._ours = 0.0  # most CPUs that we used in a block
        self.patience = 0.0
        self.others_stay = False  # they ran while the script was watched: until they end, nothing is repeated
        self._without = 0  # blocks in a row
        self.say: Callable[[str], None] = lambda text: None
        self.contended = False  # in the latest block
        self.blocks = self.disturbed_blocks = self.set_aside = self._kept = 0
        self.spent_seconds = 0.0
        self._taken = self._stolen = 0.0  # seconds in disturbed blocks: by others, of these by a hypervisor

    @property
    def disturbed_share(self) -> float:
        """The share of all blocks so far that were disturbed, 0 to 1; 0 if there are too few to tell."""
        return self.disturbed_blocks / self.blocks if self.blocks >= _FEW_BLOCKS else 0.0

    @property
    def counted_as_measured(self) -> int:
        """How many disturbed blocks so far could not be measured again."""
        return self.disturbed_blocks - self.set_aside

    def begin(self) -> ProcessorTime | None:
        """Call before a block: the reading to pass to ``disturbed`` after it."""
        return self._read()

    def disturbed(self, before: ProcessorTime | None, again: bool = True) -> bool:
        """Whether others disturbed the block since ``before`` and it must be measured again; if so, waits
        until they are quiet, if that is soon. False once patience is used up, and if it cannot be measured
        ``again``; then ``contended`` says whether they did.
        """
        after = self._read()
        self.contended = False
        if before is None or after is None:
            return False
        self.blocks += 1
        self._ours = max(self._ours, _cpus_used(after.own - before.own, before, after))
        if not self._contended(before, after):
            self._without += after.at - before.at >= _LONG_SECONDS
            self.others_stay = self.others_stay and self._without < _GONE_BLOCKS
            return False
        self.contended, self._without = True, 0
        self.disturbed_blocks += 1
        self._taken += _others(before, after)
        self._stolen += after.stolen - before.stolen
        self._kept += self.others_stay
        if self.patience <= 0 or self.others_stay or not again:
            return False
        self.set_aside += 1
        self._spend(after.at - before.at)
        self._wait(after)
        return True

    def others_since(self, before: ProcessorTime | None) -> bool:
        """Whether others disturbed what was done since ``before``, which was not a block."""
        after = self._read()
        if before is None or after is None:
            return False
        ours = max(self._ours, _cpus_used(after.own - before.own, before, after))
        return self._contended(before, after, ours)

    def _wait(self, since: ProcessorTime) -> None:
        self.say("waiting until other programs are quiet")
        began = before = since
        while self.patience > 0 and before.at - began.at < _LONGEST_WAIT_SECONDS:
            self._sleep(_LOOK_SECONDS)
            after = self._read()
            if after is None:
                return
            self._spend(after.at - before.at)
            if not self._contended(before, after):
                return
            before = after

    def _contended(self, before: ProcessorTime, after: ProcessorTime, needed: float | None = None) -> bool:
        """Whether others use what we need: while we do not work, it counts what we ``needed`` before."""
        seconds = _others(before, after)
        others = _cpus_used(seconds, before, after)
        if (
            seconds > _LEAST_SECONDS
            and others > _LEAST_CPUS
            and others + (self._ours if needed is None else needed) > self._cpus - _SPARE_CPUS
        ):
            return True
        stopped = _cpus_used(after.throttled - before.throttled, before, after) > _STOPPED_SHARE
        ours = _cpus_used(after.own - before.own, before, after)
        return stopped and self._quota is not None and ours < _OURS * self._quota

    def _spend(self, seconds: float) -> None:
        self.patience -= seconds
        self.spent_seconds += seconds

    def cautions(self) -> list[Caution]:
        """Cautions to report at the end of a tune."""
        if not self.disturbed_blocks:
            return []
        found = Disturbance(
            blocks=self.blocks,
            disturbed=self.disturbed_blocks,
            set_aside=self.set_aside,
            seconds=self.spent_seconds,
            by_host=self._stolen > max(0.0, self._taken) / 2,
            kept=self._kept,
        )
        return [Caution("disturbed", disturbance=found)]


def _others(before: ProcessorTime, after: ProcessorTime) -> float:
    """Seconds of processor time that others used."""
    return (after.busy - before.busy) - (after.own - before.own)


def _cpus_used(seconds: float, before: ProcessorTime, after: ProcessorTime) -> float:
    """How many CPUs that is on average."""
    return seconds / max(1e-9, after.at - before.at)
