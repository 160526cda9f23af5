"""What all children that make samples do first, and how they end."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import ModuleType


def be_quiet_and_single(torch: ModuleType) -> None:
    """For a child: it prints nothing and, like a loader's worker, uses one thread: OpenMP does not survive a
    fork.
    """
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.stdout = sys.stderr = os.fdopen(silence, "w")  # the script may have replaced them with a log file
    torch.set_num_threads(1)


def end(child: int) -> None:
    """End it, whatever it is doing."""
    with suppress(ProcessLookupError, ChildProcessError):  # reaped already if SIGCHLD is ignored
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
