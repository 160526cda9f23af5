"""What all children that make samples do first, and how they end."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import sys
from contextlib import suppress
from types import ModuleType

from ..process import collector

turned_aside: list[int] = []  # descriptors of files that the script writes to, in a child


def be_quiet_and_single(torch: ModuleType) -> None:
    """For a child: it prints nothing, writes nothing to files that the script has open for writing and, like
    a loader's worker, uses one thread: OpenMP does not survive a fork. Its garbage collector leaves alone
    what was there before: to look at it would copy every page of it.
    """
    collector.freeze()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    turned_aside[:] = _written_to()
    for number in turned_aside:
        os.dup2(silence, number)
    sys.stdout = sys.stderr = os.fdopen(silence, "w")  # the script may have replaced them with a log file
    torch.set_num_threads(1)


def _written_to() -> list[int]:
    """Descriptors of files that are open for writing alone."""
    found = []
    if sys.platform == "linux":
        for number in [int(name) for name in os.listdir("/proc/self/fd")]:
            with suppress(OSError):  # the descriptor that listed them is already closed
                writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
                if number > 2 and writes and stat.S_ISREG(os.fstat(number).st_mode):
                    found.append(number)
    return found


def end(child: int) -> None:
    """End it, whatever it is doing."""
    with suppress(ProcessLookupError, ChildProcessError):  # reaped already if SIGCHLD is ignored
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
