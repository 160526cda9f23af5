"""Which files samples are made from: those that are opened in Python while a sample is made, and those that
are open already.

A library that opens files past Python (many decoders of pictures do) is not seen; that it read something
is told by what the kernel counts.

Sources: https://docs.python.org/3/library/audit_events.html, proc(5) for fd, maps and io.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import source_from_cache
from sysconfig import get_paths

FileMark = tuple[str, int, int]
"""A file or folder that samples are made from: its path, size in bytes and time of change in ns (-1, -1 for
none).
"""

_OPENING = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_SYSTEMS = (
    *("/proc/", "/sys/", "/etc/", "/memfd:", "/lib/", "/lib64/"),
    *("/usr/lib/", "/usr/lib64/", "/usr/share/"),
)
_DEVICES, _SHARED = "/dev/", "/dev/shm/"
_MADE_BY_LIBRARIES = tuple(_SHARED + name for name in ("torch_", "sem.", "nccl-"))  # other names each time
_OVERHEAD_BYTES = 1024  # that asking the kernel reads itself
_MOST_DESCRIPTORS = 256


class FilesRead:
    """Hears what is opened in this process, for as long as it lives: for children that make samples."""

    def __init__(self) -> None:
        self._heard: dict[str, None] = {}
        sys.addaudithook(self._hear)

    def since(self) -> list[FileMark]:
        """The files that were opened since this was asked last, as they are now."""
        heard, self._heard = self._heard, {}
        return [mark_of(path) for path in heard]

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if event not in _OPENING or not details:
            return
        with suppress(Exception):  # what the script opened is not ours to judge
            path, flags = details[0], details[2] if len(details) > 2 else os.O_RDONLY
            written = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
            if isinstance(path, (str, bytes, os.PathLike)) and not written:
                found = os.path.abspath(os.fsdecode(path))
                if found.endswith(".pyc"):
                    found = source_from_cache(found)
                if not _is_of_no_sample(found):
                    self._heard[found] = None


def files_open(but_in: str) -> list[FileMark]:
    """Files that this process has open to be read, or mapped into memory, which are neither the system's nor
    Python's, nor in the folder ``but_in``.
    """
    left_out = os.path.join(os.path.realpath(but_in), "")
    found: dict[str, None] = {}
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd")[:_MOST_DESCRIPTORS]:
            with suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{name}")
                if int(name) > 2 and os.path.isfile(path) and _is_read_only(name):
                    found[path] = None
        found.update(dict.fromkeys(_mapped()))
    marked = (path for path in sorted(found) if not _is_of_no_sample(path))
    return [mark_of(path) for path in marked if not path.startswith(left_out)]


def bytes_read() -> int:
    """That this process has read, files in the page cache included; 0 where the kernel does not tell."""
    with suppress(OSError, ValueError), open("/proc/self/io", "rb") as told:
        return int(told.readline().split()[1])
    return 0


def reads_unseen(before: int, after: int, files: Sequence[FileMark]) -> bool:
    """Whether making a sample between two ``bytes_read`` read files, and ``files``, all that is known of, are
    none.
    """
    return not files and after - before > _OVERHEAD_BYTES


def has_changed(files: Sequence[Sequence[object]]) -> str:
    """The first of the files that is not as it was; "" where all are."""
    for path, size, changed in files:
        if mark_of(str(path)) != (path, size, changed):
            return str(path)
    return ""


def mark_of(path: str) -> FileMark:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return path, -1, -1
    return path, found.st_size, found.st_mtime_ns


def _is_read_only(descriptor: str) -> bool:
    with open(f"/proc/self/fdinfo/{descriptor}") as told:
        flags = next(line.split()[1] for line in told if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE == os.O_RDONLY


def _mapped() -> list[str]:
    """Files mapped to be read whose code is not run."""
    found: dict[str, bool] = {}  # path -> whether any of it is run
    with open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            parts = line.rstrip("\n").split(None, 5)
            if len(parts) == 6 and parts[5].startswith("/"):
                found[parts[5]] = found.get(parts[5], False) or "x" in parts[1]
    return [path for path, runs in found.items() if not runs and os.path.isfile(path)]


def _is_of_no_sample(path: str) -> bool:
    """Whether a file is the system's, or came with Python or its libraries, whose versions are looked at."""
    if path.startswith(_DEVICES):
        return not path.startswith(_SHARED) or path.startswith(_MADE_BY_LIBRARIES)
    return path.startswith((*_SYSTEMS, *_libraries()))


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    told = get_paths()
    folders = [told[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return tuple({os.path.join(one, "") for path in folders for one in (path, os.path.realpath(path))})
