"""The files that a training runs: as they were when a measurement began, and whether they still are.

Workers report the user's own modules as their script imports them.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..errors import HastenError, Refusal
from ..inside.worker.notebook import read_notebook
from ..records.sources import SourceDigests

if TYPE_CHECKING:
    from .workspace import Script

GONE = ""  # instead of the digest of an unreadable file
_MOST_BYTES = 64 * 2**20  # read from a file: source code is shorter
_MOST_ENTRIES = 20_000  # of folders examined
_SUFFIXES = (".py", ".pyw", ".so", ".pyd")
_NOT_ENTERED = {"__pycache__", "site-packages", "dist-packages", "node_modules"}

Mark = tuple[int, int, int, int, int]


class Sources:
    """The files of ``script`` and of the local modules that it imports, as they were at the beginning.

    ``doing`` names in a message what they had to stay the same for: "tuned".
    """

    def __init__(self, script: Script, doing: str) -> None:
        self._script = script
        self._doing = doing
        self._lock = threading.Lock()  # ranks report in separate threads
        self._at_first = dict(_marks_in(script.folders))
        self._marks: dict[str, Mark | None] = {}
        self._digests: dict[str, str] = {}
        self._changed: dict[str, None] = {}
        self._main = os.path.abspath(script.path)
        self.imported([self._main])

    def imported(self, paths: Iterable[str]) -> None:
        """A worker's script has imported the modules in these files. Problems with them are reported by
        ``check``.
        """
        with self._lock:
            for path in paths:
                if path not in self._digests:
                    self._marks[path], self._digests[path] = mark_of(path), digest_of(path)
                    before = self._at_first.get(path, self._marks[path])
                    if before != self._marks[path] or mark_of(path) != before:
                        self._changed[path] = None

    def check(self) -> None:
        """Raises Refusal if any of them has changed: nothing can be said about either version."""
        with self._lock:
            for path, before in self._marks.items():
                now = mark_of(path)
                if now == before:
                    continue
                if digest_of(path) == self._digests[path]:
                    self._marks[path] = now  # saved again without changes
                else:
                    self._changed[path] = None
            changed = list(self._changed)
        if changed:
            raise Refusal(self._words(changed))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """``check`` at the end of the block, even if it fails: the failure may have happened during a
        change.
        """
        try:
            yield
        except HastenError:
            self.check()
            raise
        self.check()

    def digests(self) -> SourceDigests:
        """Digests of the script and of everything imported so far."""
        with self._lock:
            modules = {_name_of(path, self._script): digest for path, digest in self._digests.items()}
        own = modules.pop(_name_of(self._main, self._script))
        return SourceDigests(own, dict(sorted(modules.items())))

    def _words(self, changed: list[str]) -> str:
        names = " and ".join(_shown(path) for path in changed)
        what = "it" if changed == [self._main] else self._script.label
        return f"{names} changed while {what} was {self._doing}: nothing is claimed; start again"


def changed_since(script: Script, made_of: Mapping[str, object]) -> list[str]:
    """The local modules, named as in ``SourceDigests.modules``, that have changed since."""
    folder = _folder_of(script)
    return [name for name, digest in made_of.items() if digest_of(os.path.join(folder, name)) != digest]


def digest_of(path: str | os.PathLike[str]) -> str:
    """Digest of a file's content; for a notebook, of its code, which is all that runs. ``GONE`` for an
    unreadable or not regular file.
    """
    content = _content_of(path)
    return GONE if content is None else hashlib.blake2b(content, digest_size=16).hexdigest()


def _content_of(path: str | os.PathLike[str]) -> bytes | None:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):  # a pipe would block
            return None
        with open(path, "rb") as file:  # /proc has files without a size that block, too
            content = file.read(min(found.st_size, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    if os.fspath(path).endswith(".ipynb"):
        with suppress(OSError, SyntaxError, ValueError):
            return "\0".join(cell.source for cell in read_notebook(os.fspath(path))).encode()
    return content + str(found.st_size).encode() if found.st_size > _MOST_BYTES else content


def mark_of(path: str) -> Mark | None:
    """A mark that shows without reading it whether a file changed; None if there is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _marks_in(folders: Iterable[str]) -> Iterator[tuple[str, Mark]]:
    """Marks of everything importable from ``folders``, nearest first, up to a limit."""
    waiting, seen, left = deque(reversed(list(folders))), set[str](), _MOST_ENTRIES
    while waiting and left > 0:
        folder = waiting.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _NOT_ENTERED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(_SUFFIXES):
                mark = mark_of(entry.path)
                if mark is not None:
                    yield entry.path, mark


def _folder_of(script: Script) -> str:
    return os.getcwd() if script.module else os.path.dirname(os.path.realpath(script.path))


def _name_of(path: str, script: Script) -> str:
    folders = (_folder_of(script), os.getcwd())
    below = any(os.path.commonpath([path, folder]) == folder for folder in folders)
    return os.path.relpath(path, folders[0]) if below else path


def _shown(path: str) -> str:
    """Relative to the working directory, if inside."""
    name = os.path.relpath(path)
    return path if name.startswith("..") else name
