"""Threads and processes that a bound thread starts may use all its process' CPUs.

A new thread or process inherits the CPUs of the thread that starts it. Where OpenMP has bound the main thread
to one core, everything that the script starts would crowd onto that core: its thread pools, its own worker
processes, torch's compile workers, and whatever forks to make samples. Threads that a library starts without
Python stay where they are.

Source: sched_setaffinity(2): a forked child inherits the mask, and it is kept across execve.
"""

from __future__ import annotations

import multiprocessing.util
import os
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from ...seams import Call, Seams

_STARTS: tuple[tuple[object, str], ...] = (
    (threading.Thread, "start"),
    (subprocess.Popen, "__init__"),
    (multiprocessing.util, "spawnv_passfds"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (os, "system"),
)
"""What starts a thread, or a program without ``os.fork``."""
_VARIABLES = ("OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY")
"""By which a program that is started would bind its own main thread to the first of our cores."""
_AT_FIRST = frozenset[int](os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())
"""As this process was started: this module is imported before torch, which binds the main thread."""


def unbind_children(seams: Seams, places: Iterable[frozenset[int]]) -> None:
    """From now on, until the seams are undone, what this thread starts may run wherever this process could at
    first, and wherever threads are bound to; ``os.sched_getaffinity`` says so, too, as scripts count workers
    by it. A thread that the script binds anew is left alone. Call it once OpenMP's runtime is loaded: it has
    read the variables that are removed here.
    """
    bound, cpus = os.sched_getaffinity(0), _AT_FIRST.union(*places)
    real, allow = os.sched_getaffinity, partial(_allow, os.sched_setaffinity)
    on = True

    def is_bound() -> bool:
        return on and real(0) == bound

    def forked() -> None:
        if is_bound():
            allow(cpus)

    def undo() -> None:
        nonlocal on
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

    def told(original: Callable[[int], set[int]]) -> Callable[[int], set[int]]:
        def sched_getaffinity(pid: int, /) -> set[int]:
            found = original(pid)
            return set(cpus) if found == bound and pid in (0, os.getpid()) else found

        return sched_getaffinity

    os.register_at_fork(after_in_child=forked)  # it cannot be taken back
    seams.on_undo(undo)
    for owner, name in _STARTS:
        seams.replace(owner, name, around)
    seams.replace(os, "sched_getaffinity", told)
    for name in _VARIABLES:
        os.environ.pop(name, None)


def _allow(set_affinity: Callable[[int, Iterable[int]], None], cpus: Iterable[int]) -> None:
    """Let this thread run on ``cpus``."""
    with suppress(OSError):  # a container's CPUs may have changed since
        set_affinity(0, cpus)
