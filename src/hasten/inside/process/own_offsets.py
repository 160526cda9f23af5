"""Give a forked process its own offsets in the files that it inherited.

A fork shares them with its parent: a seek in one moves where the other reads.

Sources: fork(2), open(2), proc(5)
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from contextlib import suppress


def open_files_anew() -> None:
    """All regular files opened only for reading. Raises OSError if one cannot be opened again."""
    if sys.platform != "linux":  # elsewhere a path for a descriptor shares its offset
        return
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        reads = False
        with suppress(OSError):  # the descriptor that listed them is already closed
            reads = number > 2 and reads_only(number) and stat.S_ISREG(os.fstat(number).st_mode)
        if reads:
            open_anew(number)


def reads_only(number: int) -> bool:
    """Whether this descriptor is open for reading alone."""
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def open_anew(number: int) -> None:
    """At the same offset, from now on private to this process."""
    place = os.lseek(number, 0, os.SEEK_CUR)
    opened = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    os.lseek(opened, place, os.SEEK_SET)
    os.dup2(opened, number)
    os.close(opened)
