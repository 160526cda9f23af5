"""Something done in each thread that torch computes with: a setting of the processor belongs to a thread.

torch has no call for that. Its threads are OpenMP's, kept from one loop to the next, so a parallel region of
our own runs in just those: ``GOMP_parallel`` of libgomp, which Intel's libiomp5 and LLVM's libomp have as
well, calls a function once in each. Threads that OpenMP starts later inherit from the one that starts them.

Source: https://gcc.gnu.org/onlinedocs/libgomp/Implementing-PARALLEL-construct.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

_NAME = "GOMP_parallel"
_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Parallel = Callable[..., object]


class NoThreads(Exception):
    """torch's threads cannot be found; the message says why."""


class TorchThreads:
    """Those that torch computes with when this is created, and all that it computes with later. Raises
    NoThreads if there are some that cannot be found.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._most = torch.get_num_threads()
        self._parallel = _of_torch(torch)
        if self._parallel is None and self._most > 1:
            raise NoThreads(f"no OpenMP library that torch uses has {_NAME}")

    def each(self, do: Callable[[], object]) -> None:
        """Call ``do`` in the calling thread and in all those that it computes with, or did before."""
        self._most = max(self._most, self._torch.get_num_threads())
        if self._most == 1 or self._parallel is None:
            do()
            return

        def called(_: object) -> None:
            do()

        self._parallel(_Function(called), None, self._most, 0)


def _of_torch(torch: ModuleType) -> _Parallel | None:
    """The function that torch calls: a library that was preloaded has precedence, as when torch was linked.
    Other packages bring an OpenMP of their own, with threads that are not torch's.
    """
    folder = Path(torch.__file__ or "").parent / "lib"
    for library in (None, *map(str, sorted(folder.glob("libtorch_cpu.so*")))):
        try:
            found: _Parallel = getattr(ctypes.CDLL(library), _NAME)
        except (OSError, AttributeError):
            continue
        return found
    return None
