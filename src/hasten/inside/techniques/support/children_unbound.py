"""Threads and processes that a bound thread starts may use all its process' CPUs.

A new thread or process inherits the CPUs of the thread that starts it. Where OpenMP has bound the main thread
to one core, everything that the script starts would crowd onto that core: its thread pools, its own worker
processes, torch's compile workers, and whatever forks to make samples. Threads that a library starts without
Python stay where they are; and libgomp binds a new thread as soon as that runs an operator in parallel.

Sources: sched_setaffinity(2): a forked child inherits the mask, and it is kept across execve; libgomp's
team.c.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from ...seams import Call, Seams
from .native import drop_own_variables

_STARTS: tuple[tuple[object, str], ...] = (
    (threading.Thread, "start"),
    (subprocess.Popen, "__init__"),
    *((os, name) for name in ("posix_spawn", "posix_spawnp", "system", "execv", "execve")),
)
"""What starts a thread or a program without ``os.fork``; and ``fork_exec``, which other modules call."""
_VARIABLES = ("OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")
"""By which a program that is started would bind its own main thread to the first of our cores."""
_AT_FIRST = frozenset[int](os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())
"""As this process was started: this module is imported before torch, which binds the main thread."""


def unbind_children(seams: Seams, places: Iterable[frozenset[int]], own: frozenset[int]) -> None:
    """From now on, until the seams are undone, what this thread starts may run wherever this process could at
    first, on its ``own`` CPUs if there are some, and wherever threads are bound to. ``os.sched_getaffinity``
    says so, too, as scripts count workers by it. A thread that the script binds itself is left alone. Call it
    once OpenMP's runtime has read the variables, which are removed here.
    """
    bound, cpus = os.sched_getaffinity(0), (own or _AT_FIRST).union(*places)
    read, allow = os.sched_getaffinity, partial(_allow, os.sched_setaffinity)
    home, chosen, on = os.getpid(), set[int](), True

    def is_bound() -> bool:
        return on and threading.get_ident() not in chosen and read(0) == bound

    def forked() -> None:
        if is_bound():
            allow(cpus)

    def undo() -> None:
        nonlocal on
        if os.getpid() == home:  # in a forked child, what is undone there is undone before ``forked``
            forked()
            on = False

    def around(original: Call) -> Call:
        def start(*args: object, **kwargs: object) -> object:
            if not is_bound():
                return original(*args, **kwargs)
            allow(cpus)
            try:
                return original(*args, **kwargs)
            finally:
                allow(bound)

        return start

    def telling(original: Callable[[int], set[int]]) -> Callable[[int], set[int]]:
        def sched_getaffinity(pid: int, /) -> set[int]:
            return set(cpus) if pid in (0, os.getpid()) and is_bound() else original(pid)

        return sched_getaffinity

    def noting(original: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
        def sched_setaffinity(pid: int, mask: Iterable[int], /) -> None:
            original(pid, mask)
            if pid in (0, os.getpid()):
                chosen.add(threading.get_ident())

        return sched_setaffinity

    os.register_at_fork(after_in_child=forked)  # it cannot be taken back
    seams.on_undo(undo)
    for owner, name in (*_STARTS, (_fork_exec_module(), "fork_exec")):
        seams.replace(owner, name, around)
    seams.replace(os, "sched_getaffinity", telling)
    seams.replace(os, "sched_setaffinity", noting)
    drop_own_variables(_VARIABLES)


def _fork_exec_module() -> object:
    """Python's own, by which multiprocessing and libraries like it start programs."""
    import _posixsubprocess

    return _posixsubprocess


def _allow(set_affinity: Callable[[int, Iterable[int]], None], cpus: Iterable[int]) -> None:
    """Let this thread run on ``cpus``."""
    with suppress(OSError):  # a container's CPUs may have changed since
        set_affinity(0, cpus)
