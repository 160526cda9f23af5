"""Something done in each thread that torch computes with: a setting of the processor belongs to a thread.

torch has no call for that. Its threads are OpenMP's, kept from one loop to the next, so a parallel region of
our own runs in just those: libgomp's ``GOMP_parallel``, which Intel's libiomp5 has as well, calls a function
once in each. Threads that OpenMP starts later inherit from the one that starts them.

Source: https://gcc.gnu.org/onlinedocs/libgomp/Implementing-PARALLEL-construct.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

_LIBRARIES = "libiomp5", "libgomp"  # the first that is loaded serves torch
_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class NoThreads(Exception):
    """torch's threads cannot be found; the message says why."""


def in_each(torch: ModuleType, do: Callable[[], object]) -> None:
    """Call ``do`` in the calling thread and in all those that it computes with. Raises NoThreads."""
    count = torch.get_num_threads()
    if count == 1:
        do()
        return

    def called(_: object) -> None:
        do()

    _parallel()(_Function(called), None, count, 0)


def _parallel() -> Callable[..., object]:
    for path in _loaded():
        try:
            found: Callable[..., object] = ctypes.CDLL(path).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return found
    raise NoThreads("torch's threads are neither libgomp's nor libiomp5's")


def _loaded() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError as error:
        raise NoThreads(f"what is loaded cannot be read: {error}") from None
    paths = dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return [path for name in _LIBRARIES for path in paths if Path(path).name.startswith(name)]
