"""Files that are written in the background: one thread, in the order of their saving, each whole or not at
all.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_POLL_SECONDS = 0.005
_ROOM = 1.1  # times the file's size
_stat = os.stat


@dataclass(frozen=True)
class Place:
    """Where a file goes. ``folder``: our folder next to it, where it is written first; ``mode``:
    the file's that is there already.
    """

    path: str  # with no link in it
    folder: str
    mode: int | None

    @property
    def written_first(self) -> str:
        """Has the file's own name: torch writes the name into it."""
        return os.path.join(self.folder, os.path.basename(self.path))

    def has_room_for(self, size: int) -> bool:
        """Whether the disk has room for a file of ``size`` bytes in addition to the existing one."""
        try:
            return shutil.disk_usage(self.folder).free >= _ROOM * size
        except OSError:
            return False

    def drop(self) -> None:
        """Drop it: nothing is written there after all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def place_for(path: str) -> Place | None:
    """Where to write a file; None if it cannot simply be replaced by another of its name: a device, one with
    several names or of another owner, in a folder that nothing may be added to.
    """
    real, mode = os.path.realpath(path), None
    try:
        there = _stat(real)
        if not stat.S_ISREG(there.st_mode) or there.st_nlink > 1 or there.st_uid != os.geteuid():
            return None
        if not os.access(real, os.W_OK):
            return None
        mode = stat.S_IMODE(there.st_mode)
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        return Place(real, tempfile.mkdtemp(prefix=".hasten-", dir=os.path.dirname(real)), mode)
    except OSError:
        return None


@dataclass
class Save:
    """``write`` writes the whole file to a path."""

    place: Place
    size: int  # bytes
    write: Callable[[str], None]
    synchronous: bool = False  # the disk has it before it takes its name


@dataclass
class BackgroundSaves:
    """Pending saves, and the results of earlier ones. ``on_written`` gets each finished one.

    Whatever needs a file calls ``wait``. A forked child has no thread that writes, so it waits for the
    parent's files.
    """

    on_written: Callable[[Save], None]
    _under_way: list[Save] = field(default_factory=list)
    _failed: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _writer: threading.Thread | None = None
    _parents: list[Place] = field(default_factory=list)  # in a child: what was pending at the fork
    _parent: int = 0
    _home: int = field(default_factory=os.getpid)

    def submit(self, save: Save) -> None:
        """Write it soon, or now if no thread can be started any more."""
        with self._changed:
            self._under_way.append(save)
            if self._writer is not None:
                return
            self._writer = threading.Thread(target=self._write_all, name="hasten-saves")
            try:
                self._writer.start()
                return
            except RuntimeError:  # the interpreter is ending
                self._writer = None
        self._write_all()

    @property
    def bytes_under_way(self) -> int:
        return sum(save.size for save in self._under_way)

    @property
    def any_under_way(self) -> bool:
        return bool(self._under_way or self._parents)

    def concerns(self, path: str) -> bool:
        """Whether a file (with no link in its path) is still pending."""
        return any(path == place.path for place in self._places)

    def concerns_folder(self, path: str) -> bool:
        """Whether a file in the folder (not a link) is still pending."""
        return any(path == os.path.dirname(place.path) for place in self._places)

    @property
    def _places(self) -> list[Place]:
        return [save.place for save in self._under_way] + self._parents

    def wait(self) -> None:
        """Wait until all are written. The writing thread does not wait for itself; a forked child only waits
        for what its parent was writing.
        """
        self._wait_for_parent()
        if threading.current_thread() is self._writer or not self.at_home:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way)

    @property
    def at_home(self) -> bool:
        """Whether this is the process that saves, not a forked child of it."""
        return os.getpid() == self._home

    @property
    def any_failed(self) -> bool:
        return bool(self._failed)

    def take_failures(self) -> list[str]:
        """What could not be written since the last call, as text."""
        taken, self._failed = self._failed, []
        return taken

    def is_writing_here(self) -> bool:
        """Whether this thread is the one that writes."""
        return threading.current_thread() is self._writer

    # ---- forks
    def about_to_fork(self) -> None:
        """Call it before a fork: nothing may change while the process is copied."""
        self._changed.acquire()

    def forked(self) -> None:
        """Call it in the parent after a fork."""
        self._changed.release()

    def forked_child(self) -> None:
        """Call it in the child after a fork: what was pending is the parent's to write."""
        self._changed = threading.Condition()
        self._parents += [save.place for save in self._under_way]
        self._under_way, self._failed, self._writer = [], [], None
        self._parent = os.getppid()

    def _wait_for_parent(self) -> None:
        while self._parents and os.getppid() == self._parent:
            self._parents = [place for place in self._parents if _exists(place.folder)]
            if self._parents:
                time.sleep(_POLL_SECONDS)
        self._parents = []

    # ---- the thread
    def _write_all(self) -> None:
        while True:
            with self._changed:
                if not self._under_way:
                    self._writer = None
                    return
                save = self._under_way[0]
            failure = _written(save)
            with self._changed:
                if failure:
                    self._failed.append(failure)
                else:
                    self.on_written(save)
                self._under_way.pop(0)
                self._changed.notify_all()


def _written(save: Save) -> str:
    """Why it could not be written; "" if it was."""
    place = save.place
    try:
        save.write(place.written_first)
        if save.synchronous:
            _to_disk(place.written_first)
        if place.mode is not None:
            os.chmod(place.written_first, place.mode)
        _put_in_place(save)
        if save.synchronous:
            _to_disk(os.path.dirname(place.path))
    except Exception as error:
        return f"{place.path} could not be written: {error}"
    finally:
        with suppress(OSError):
            shutil.rmtree(place.folder)
    return ""


def _put_in_place(save: Save) -> None:
    """Write it again from the copies, under its own name, if the file system cannot rename."""
    try:
        os.replace(save.place.written_first, save.place.path)
    except OSError:
        save.write(save.place.path)
        if save.synchronous:
            _to_disk(save.place.path)


def _to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(path: str) -> bool:
    try:
        _stat(path)
    except OSError:
        return False
    return True
