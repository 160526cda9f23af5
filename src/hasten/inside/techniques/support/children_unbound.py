"""Threads and processes that a bound thread starts may use all its process' CPUs.

A new thread or process inherits the CPUs of the thread that starts it. Where OpenMP has bound the main thread
to one core, everything that the script starts would crowd onto that core: its thread pools, its own worker
processes, torch's compile workers, and whatever forks to make samples. Threads that a library starts without
Python stay where they are.

Source: sched_setaffinity(2): "A child created via fork(2) inherits its parent's CPU affinity mask. The affinity
mask is preserved across an execve(2)."
"""

from __future__ import annotations

import multiprocessing.util
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

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


def unbind_children(seams: Seams, cpus: frozenset[int]) -> None:
    """From now on, until the seams are undone, what this thread starts may run on all ``cpus``, as long as it
    is bound as it is now: a script may choose others. Call it once OpenMP's runtime is loaded: it has read
    the variables that are removed here.
    """
    bound = os.sched_getaffinity(0)
    on = True

    def forked() -> None:
        if on and os.sched_getaffinity(0) == bound:
            _allow(cpus)

    def undo() -> None:
        nonlocal on
        on = False

    def around(original: Call) -> Call:
        def start(*args: object, **kwargs: object) -> object:
            with _on(cpus) if os.sched_getaffinity(0) == bound else nullcontext():
                return original(*args, **kwargs)

        return start

    os.register_at_fork(after_in_child=forked)  # it cannot be taken back
    seams.on_undo(undo)
    for owner, name in _STARTS:
        seams.replace(owner, name, around)
    for name in _VARIABLES:
        os.environ.pop(name, None)


@contextmanager
def _on(cpus: frozenset[int]) -> Iterator[None]:
    """This thread may run on ``cpus`` meanwhile."""
    before = os.sched_getaffinity(0)
    _allow(cpus)
    try:
        yield
    finally:
        _allow(before)


def _allow(cpus: frozenset[int] | set[int]) -> None:
    with suppress(OSError):  # a container's CPUs may have changed since
        os.sched_setaffinity(0, cpus)
