"""Forks of a rank that compute something in parallel, and write their result to an anonymous file."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass

from ..process.own_memory import free_bytes, private_bytes

_MEMORY = 2  # times a process's private memory must be free for each fork


@dataclass
class Fork:
    """``result``: the file it writes."""

    pid: int
    result: int
    seconds: float | None = None  # of processor time; None while it runs

    def look(self, wait: bool = False) -> None:
        """Find out whether it has ended, or ``wait`` until it has."""
        if self.seconds is not None:
            return
        try:
            ended, _, used = os.wait4(self.pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:  # the script itself waits for any child
            self.seconds = 0.0
            return
        if ended:
            self.seconds = used.ru_utime + used.ru_stime

    def told(self) -> tuple[str, list[list[float]]]:
        """Why it failed, "" if it did not, and a sketch of the gradients of each pass."""
        text = os.pread(self.result, os.fstat(self.result).st_size, 0)
        os.close(self.result)
        if not text:
            return "the process that should do it could not start, was killed, or took too long", []
        found = json.loads(text)
        return str(found["why"]), found["passes"]


def fork() -> int:
    """Like ``os.fork``, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # our threads and torch's hold no locks here
        return os.fork()


def have_memory(forks: int, available_bytes: int) -> bool:
    """Whether there is memory for this many forks of this process; true if that is not known.
    ``available_bytes``: when the process started, a container's limit included.
    """
    own, free = private_bytes(), free_bytes()
    return own is None or free is None or min(free, available_bytes) > _MEMORY * own * forks
