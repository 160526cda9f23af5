"""Which files samples are made from: those opened in Python while a sample is made, and those already open.

Libraries that open files without Python (many picture decoders do) are not seen, nor are other programs; the
kernel's counters show if more was read than is known. Data from a network is not a file, and its changes
cannot be detected.

Sources: https://docs.python.org/3/library/audit_events.html, proc(5) for fd, maps and io.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import source_from_cache
from sysconfig import get_paths

FileMark = tuple[str, int, int]
"""A file or folder that samples are made from: its path, size in bytes and time of change in ns (-1, -1 for
none).
"""

OPENING = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_SYSTEMS = (
    *("/proc/", "/sys/", "/etc/", "/memfd:", "/lib/", "/lib64/"),
    *("/usr/lib/", "/usr/lib64/", "/usr/share/"),
)
_DEVICES, _SHARED = "/dev/", "/dev/shm/"
_MADE_BY_LIBRARIES = tuple(_SHARED + name for name in ("torch_", "sem.", "nccl-"))  # names differ each time
_LOCKS = ("/lock.mdb", "-lock")  # of lmdb: readers write to it
_OVERHEAD_BYTES = 1024  # read by asking the kernel
_TIMES_READ = 2  # a file may be examined before it is read
_PROGRAMS = ("subprocess.Popen", "os.posix_spawn", "os.system", "os.fork", "os.forkpty")
_MOST_DESCRIPTORS = 4096  # looked at; a process may have more open


class FilesRead:
    """Records what is opened in this process, for its whole life: for children that make samples.
    ``network``: a connection was made; ``unseen``: samples were made from unknown files. Files in the folder
    ``but_in`` are ours.
    """

    def __init__(self, but_in: str) -> None:
        self.network = self.unseen = False
        self._heard: dict[str, None] = {}
        self._lasting: dict[str, FileMark] = {}  # files read once for all later samples
        self._known_bytes = 0  # of opened files of any kind
        self._but_in = but_in
        self._open_before = {path for path, _, _ in files_open(but_in)}
        self._offsets: dict[int, int] | None = None  # of already open files, at the last look
        self._read = bytes_read()
        sys.addaudithook(self._hear)

    def settle(self, make: Callable[[], object]) -> None:
        """``make`` one sample twice: files opened only the first time are not read again. Files open from
        then on count for all samples, even if a library opened them without Python.
        """
        first, again = ({mark[0]: mark for mark in self._after(make)} for _ in range(2))
        self._lasting.update({path: mark for path, mark in first.items() if path not in again})
        opened = {mark[0]: mark for mark in files_open(self._but_in)}
        self._lasting.update({path: opened[path] for path in opened.keys() - self._open_before})
        self.network = self.unseen = False

    def _after(self, make: Callable[[], object]) -> list[FileMark]:
        with suppress(Exception):  # the request for the sample will raise it
            make()
        return self.since()

    def since(self, look: bool = False) -> list[FileMark]:
        """The files opened since the last call, as they are now, and those read for all samples. ``look`` for
        unseen ones, from the second time on, which takes a moment: more bytes than these files have, if no
        already open file was read further.
        """
        read = bytes_read() - self._read  # before looking, which reads, too: the more the more files are open
        heard, self._heard = self._heard, {}
        found = {path: mark_of(path) for path in heard}
        before, self._offsets = self._offsets, self._offsets_now() if look else None
        allowed = _TIMES_READ * self._known_bytes + _OVERHEAD_BYTES
        if look and before == self._offsets and read > allowed:
            self.unseen = True
        self._known_bytes, self._read = 0, bytes_read()
        self._lasting.update({path: mark for path, mark in found.items() if path.endswith(".py")})
        return list({**self._lasting, **found}.values())

    def _offsets_now(self) -> dict[int, int]:
        return {number: os.lseek(number, 0, os.SEEK_CUR) for number in _opened(self._but_in)}

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if event == "socket.connect":
            self.network |= isinstance(details[1], tuple)
        elif event in _PROGRAMS:
            self.unseen = True
        elif event in OPENING and details:
            with suppress(Exception):  # whatever the script opened
                self._hear_opened(details[0], details[2] if len(details) > 2 else os.O_RDONLY)

    def _hear_opened(self, path: object, flags: object) -> None:
        written = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
        if written or not isinstance(path, (str, bytes, os.PathLike)):
            return
        found = os.path.abspath(os.fsdecode(path))
        self._known_bytes += max(0, mark_of(found)[1])
        if found.endswith(".pyc"):
            found = source_from_cache(found)
        if not (is_of_no_sample(found) or found in sys.path_importer_cache):  # which an import lists
            self._heard[found] = None


def files_open(but_in: str) -> list[FileMark]:
    """Files that this process has open for reading, or mapped into memory, without the system's, Python's,
    and those in the folder ``but_in``.
    """
    found = set(_opened(but_in).values())
    with suppress(OSError):
        found.update(path for path in _mapped() if not (is_of_no_sample(path) or _is_in(but_in, path)))
    return [mark_of(path) for path in sorted(found) if not path.endswith(_LOCKS)]


def _opened(but_in: str) -> dict[int, str]:
    """Files open for reading, by descriptor."""
    found = {}
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd")[:_MOST_DESCRIPTORS]:
            with suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{name}")
                if int(name) > 2 and os.path.isfile(path) and _is_read_only(name):
                    found[int(name)] = path
    return {
        number: path for number, path in found.items() if not (is_of_no_sample(path) or _is_in(but_in, path))
    }


def _is_in(folder: str, path: str) -> bool:
    return path.startswith(os.path.join(os.path.realpath(folder), ""))


def bytes_read() -> int:
    """Bytes read by this process, including from the page cache; 0 if the kernel does not report it."""
    with suppress(OSError, ValueError), open("/proc/self/io", "rb") as told:
        return int(told.readline().split()[1])
    return 0


def has_changed(files: Sequence[Sequence[object]]) -> str:
    """The first of the files that has changed; "" if none has."""
    for path, size, changed in files:
        if mark_of(str(path)) != (path, size, changed):
            return str(path)
    return ""


def mark_of(path: str) -> FileMark:
    """The mark of the file as it is now."""
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
    """Files mapped for reading, without executable ones."""
    found: dict[str, bool] = {}  # path -> whether any of it is executable
    with open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            parts = line.rstrip("\n").split(None, 5)
            if len(parts) == 6 and parts[5].startswith("/"):
                found[parts[5]] = found.get(parts[5], False) or "x" in parts[1]
    return [path for path, runs in found.items() if not runs and os.path.isfile(path)]


def is_of_no_sample(path: str) -> bool:
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
