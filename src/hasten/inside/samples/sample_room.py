"""The memory that samples may take: one limit for all data sets of a process."""

from __future__ import annotations

MEMORY_SHARE = 0.4  # of what is available, for all samples that a process keeps in its own memory


class SampleRoom:
    """``available``: bytes of memory that were free before samples took any."""

    def __init__(self, available: int) -> None:
        self._available = available
        self._taken = 0

    def why_not(self, name: str, needed: int) -> str:
        """Why the samples of a data set do not fit any more; "" if they do."""
        return too_large(name, needed, self._available, taken=self._taken)

    def take(self, needed: int) -> None:
        self._taken += needed

    def give_back(self, needed: int) -> None:
        self._taken -= needed


def too_large(name: str, needed: int, available: int, share: float = MEMORY_SHARE, taken: int = 0) -> str:
    """Why a data set's samples cannot be kept if they need this many bytes, within this share of the
    ``available`` bytes of memory; "" if they can. ``taken``: already used by others.
    """
    if needed + taken <= share * available:
        return ""
    beside = f" in addition to the {taken / 2**30:.1f} GiB of other data sets" if taken else ""
    return (
        f"all samples of {name} need {needed / 2**30:.1f} GiB{beside}, more than {share:.0%} of the "
        f"{available / 2**30:.1f} GiB of memory that are free"
    )
