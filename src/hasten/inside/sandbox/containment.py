"""A worker in its own process namespace: when it ends, the kernel ends everything it started.

PR_SET_PDEATHSIG alone is not enough: programs that the script starts do not have it, and would outlive a
coordinator that was killed.

    coordinator  starts  W      waits, and ends as S ends; dies with the coordinator
                         └ I    process 1 of the namespace; dies with W, and everything in there dies with it
                           └ S  goes on as the worker

All are forks of the one process that calls ``contain``, which returns in S only. In S, /proc shows the
namespace; new files in /dev/shm are seen nowhere else and vanish at the end, while those that were there stay
visible.

If the kernel refuses that, ``stand_over`` leaves W between the coordinator and the worker: it adopts the
orphans among the worker's descendants, and ends them when the worker or the coordinator has ended. If W
itself is killed by SIGKILL, programs in sessions of their own live on.

Sources: the manual pages pid_namespaces(7), user_namespaces(7) and prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from ..process.orphans import adopt_orphans, end_orphans
from ..process.readable import readable
from . import mounts
from .dry_run import rehearse

_SHM = "/dev/shm"
_MOST_ENTRIES = 256  # in /dev/shm, each of which needs one more mount
_THE_WORKERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LEFT = getattr(signal, "SIGRTMAX", signal.SIGTERM)  # tells W that the coordinator has gone


def contain() -> str:
    """Continue in such a namespace; returns in the process that does. Call it before any thread starts.

    If the kernel does not allow it, changes nothing and returns the reason; "" if it worked.
    """
    reason = rehearse(_try)
    if not reason:
        _enter()
    return reason


def stand_over() -> None:
    """Continue in a child; this process ends with it and ends everything it leaves. Linux only."""
    above, here = os.getppid(), os.getpid()
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _THE_WORKERS)
    worker = os.fork()
    if not worker:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent()
        if os.getppid() != here:  # the parent was gone before the kernel knew
            os._exit(1)
        return
    adopt_orphans()
    _hold_only(descriptors)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(_LEFT, lambda *_: _end_all())
    die_with_parent(_LEFT)
    if os.getppid() != above:
        _end_all()
    _, status = os.waitpid(worker, 0)
    end_orphans()
    _end_with(status)


def _end_all() -> NoReturn:
    end_orphans()
    os._exit(1)


def die_with_parent(by: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent ends (Linux: prctl(2), PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, by, 0, 0, 0)


def dies_with_parent() -> bool:
    """Whether that was asked for (Linux: prctl(2), PR_GET_PDEATHSIG)."""
    number = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(2, ctypes.byref(number), 0, 0, 0)
    return number.value != 0


def _try() -> None:
    mounts.leave_shared_processes()
    reason = rehearse(_settle)  # in process 1 of the namespace
    if reason:
        raise OSError(reason)


def _enter() -> None:
    mounts.leave_shared_processes()
    die_with_parent()
    alive, held = os.pipe()  # held by W alone: when it closes, W is gone
    told, tell = os.pipe()  # how I tells W how S ended
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]  # S's /proc will no longer show W
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _THE_WORKERS)
    first = os.fork()
    if first:
        _hold_only(descriptors, held, told)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _end_as(first, told)
    os.close(held)
    die_with_parent()
    if readable(alive, 0):
        os._exit(1)  # W ended before the kernel knew
    worker = os.fork()
    if worker:
        _hold_only(descriptors, tell)
        _clear_away_until(worker, tell)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number in (alive, told, tell):
        os.close(number)
    _settle()


def _settle() -> None:
    """Let /proc and /dev/shm show what belongs to the namespace."""
    mounts.show_processes()
    with suppress(OSError):
        _keep_shared_memory_apart()


def _keep_shared_memory_apart() -> None:
    entries = os.listdir(_SHM)
    if len(entries) > _MOST_ENTRIES:
        return
    outside = os.open(_SHM, os.O_PATH)
    try:
        mounts.empty_memory(_SHM)
        for name in entries:
            source, target = f"/proc/self/fd/{outside}/{name}", os.path.join(_SHM, name)
            with suppress(OSError):  # it is gone by now, or is a link
                if os.path.isdir(source):
                    os.mkdir(target)
                else:
                    open(target, "x").close()
                mounts.bind(source, target)
    finally:
        os.close(outside)


def _end_as(first: int, told: int) -> NoReturn:
    """What W does: wait, then end as the worker ended."""
    with open(told, "rb") as pipe:
        status = int(pipe.read() or signal.SIGKILL)  # I said nothing: it was killed itself
    with suppress(ChildProcessError):
        os.waitpid(first, 0)
    _end_with(status)


def _end_with(status: int) -> NoReturn:
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = os.WTERMSIG(status)
    if number != signal.SIGKILL:  # which has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(1)


def _clear_away_until(worker: int, tell: int) -> NoReturn:
    """What I does: reap processes until the worker has ended, then end itself, and with it the namespace."""
    ended, status = 0, 0
    with suppress(ChildProcessError):
        while ended != worker:
            ended, status = os.wait()
    os.write(tell, str(status).encode())
    os._exit(0)


def _hold_only(descriptors: Sequence[int], *numbers: int) -> None:
    """Close the worker's descriptors, so that the other side sees when it ends, and leave signals to it."""
    for descriptor in descriptors:
        if descriptor > 2 and descriptor not in numbers:
            with suppress(OSError):
                os.close(descriptor)
    for number in _THE_WORKERS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
