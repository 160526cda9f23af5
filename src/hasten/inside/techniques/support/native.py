"""What this process has loaded: files mapped into it, the library behind a C function, what its threads do.

Sources: dladdr(3), dlsym(3); proc(5) for maps, environ, task/TID/status and task/TID/schedstat.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class _Place(ctypes.Structure):
    """``Dl_info`` of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("file_address", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("symbol_address", ctypes.c_void_p),
    )


def function(name: str) -> Any:
    """The C function of that name that the whole process uses; None if there is none."""
    return getattr(ctypes.CDLL(None), name, None)


def file_of(name: str) -> str:
    """The file whose function of that name the process uses, links resolved; "" if there is none."""
    found, where = function(name), _Place()
    look = function("dladdr")
    if found is None or look is None:
        return ""
    look.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Place)]
    known = look(ctypes.cast(found, ctypes.c_void_p), ctypes.byref(where))
    return os.path.realpath(os.fsdecode(where.file)) if known and where.file else ""


def mapped(file: str) -> bool:
    """Whether the file is mapped into this process."""
    return bool(file) and any(line.endswith(f" {file}") for line in _lines("/proc/self/maps"))


def cpus_by_thread() -> dict[int, frozenset[int]]:
    """The CPUs that each thread of this process may run on, by thread number."""
    found = {}
    for thread in _threads():
        for line in _lines(f"/proc/self/task/{thread}/status"):
            if line.startswith("Cpus_allowed_list:"):
                found[thread] = cpus_in(line.partition(":")[2].strip())
    return found


def seconds_by_thread() -> dict[int, float]:
    """Seconds that each thread of this process spent on a CPU, by thread number."""
    found = {}
    for thread in _threads():
        line = next(iter(_lines(f"/proc/self/task/{thread}/schedstat")), "")
        if line:
            found[thread] = int(line.split()[0]) / 1e9
    return found


def started_with() -> dict[str, str]:
    """The variables that this process was started with, whatever its script has changed since; {} if they
    cannot be read. A program that sets its process title may have overwritten them.
    """
    try:
        written = Path("/proc/self/environ").read_bytes().decode(errors="surrogateescape")
    except OSError:  # not Linux
        return {}
    return {
        name: value for name, found, value in (part.partition("=") for part in written.split("\0")) if found
    }


def drop_own_variables(names: Iterable[str]) -> None:
    """Remove those that this process was started with, so that programs that it starts do not have them. The
    script's own values stay.
    """
    for name, value in started_with().items():
        if name in names and os.environ.get(name) == value:
            del os.environ[name]


def huge_bytes() -> int:
    """Bytes of this process' anonymous memory in transparent huge pages."""
    for line in _lines("/proc/self/smaps_rollup"):
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return 0


def cpus_in(text: str) -> frozenset[int]:
    """The CPUs of a list as the kernel writes it: "0-2,8" is {0, 1, 2, 8}."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _threads() -> list[int]:
    try:
        return sorted(map(int, os.listdir("/proc/self/task")))
    except OSError:  # not Linux
        return []


def _lines(file: str) -> list[str]:
    """The lines of a file; none for a thread that ends meanwhile."""
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []
