"""kernel.c, compiled on this machine at its first use."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from ...process.native_code import CannotCompile, compiler, library

_SOURCE = Path(__file__).with_name("kernel.c")

WATCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
"""Called with the awaited rank; any result other than 0 ends the wait."""


@cache
def kernel() -> ctypes.CDLL | None:
    """The loaded library; None if there is no C compiler (``CC``, or cc, gcc or clang)."""
    asked = os.environ.get("CC")
    try:
        found = compiler(asked) if asked else compiler("cc", "gcc", "clang")
        return _declared(library(_SOURCE, found, ("-std=c11",)))
    except CannotCompile:
        return None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, whole, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.hasten_meet.argtypes = [pointer, whole, whole, wide, whole, WATCH]
    library.hasten_all_reduce.argtypes = [
        *(pointer, pointer, wide, whole, whole, pointer, wide, whole, whole),
        *(pointer, pointer, whole, whole, WATCH),
    ]
    return library
