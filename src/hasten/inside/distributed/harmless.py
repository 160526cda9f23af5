"""Make a fork of a training harmless: it can compute, but has no effect outside.

It inherits from its parent: open files, with file offsets that both share; pipes to loader workers; sockets;
the terminal. So before it goes on each of them is closed or opened again, and an attempt to write ends it.

Sources: fork(2), open(2), proc(5); PEP 578 for audit events.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from ..process.own_offsets import open_anew, reads_only
from ..sandbox import landlock
from ..sandbox.containment import die_with_parent

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REACHING_OUT = {
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"),
    *("os.chown", "os.utime", "os.kill", "os.killpg", "os.system", "os.fork", "os.forkpty", "os.exec"),
    *("os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "socket.sendto", "socket.sendmsg"),
    *("sqlite3.connect", "signal.pthread_kill"),
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGALRM)
_NICE = 10  # the training has priority


def make_harmless(kept: int, seconds: int, stop: Callable[[str], object]) -> None:
    """``kept``: a descriptor that stays open; after ``seconds`` this process is killed. ``stop`` is called,
    with the reason, before anything would be written, and must end the process.
    """
    die_with_parent()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.alarm(seconds)
    _be_first_to_die()
    _let_go_of_descriptors(kept)
    sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115  # the script may log elsewhere
    sys.dont_write_bytecode = True
    with suppress(OSError):
        landlock.deny_writes(())
    sys.addaudithook(_Guard(stop))


def _be_first_to_die() -> None:
    """If processor time or memory is short."""
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _let_go_of_descriptors(kept: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number in (kept, nothing):
            continue
        with suppress(OSError):  # the descriptor that listed them is already closed
            if number <= 2 or not _reads_only(number):
                os.dup2(nothing, number)
            elif stat.S_ISREG(os.fstat(number).st_mode):
                open_anew(number)


def _reads_only(number: int) -> bool:
    kind = os.fstat(number).st_mode
    return reads_only(number) and (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISCHR(kind))


class _Guard:
    """An audit hook: stops the process before Python has an effect outside."""

    def __init__(self, stop: Callable[[str], object]) -> None:
        self._stop = stop

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and isinstance(flags, int) and flags & _WRITING:
                self._stop("the script writes a file between a batch and its backward pass")
        elif event in _REACHING_OUT:
            self._stop(f"the script calls {event} between a batch and its backward pass")
