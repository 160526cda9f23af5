"""Standard input for workers, each of which must read what the user's own training would.

The user's own is read at most once, and never by several workers: a terminal is not read at all.

Sources: pty(7); ioctl_tty(2) for TIOCGWINSZ and TIOCPKT; termios(3) for how a terminal says "end of file".
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import tempfile
import termios
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ..errors import Refusal

MOST_BYTES = 256 * 2**20  # kept of a stream
_CHUNK_BYTES = 2**16
_NOTHING_TYPED = b"\x04" * 1000  # a terminal's "end of file", once for each read
_AGAIN = "/proc/self/fd/0"
_SIZE = b"\0" * 8  # struct winsize


@dataclass(frozen=True)
class Given:
    """What one worker is started with: it inherits ``descriptor``; call ``serve`` after that."""

    descriptor: int
    attend: Callable[[], None] | None = None

    def serve(self) -> None:
        """Close our copy of the worker's end, and serve the other end in a thread. If no worker was started,
        that ends at once.
        """
        os.close(self.descriptor)
        if self.attend is None:
            return
        everything = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:  # signals are the main thread's
            threading.Thread(target=self.attend, name="standard input", daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, everything)


class StandardInput(Protocol):
    """``stands_in``: what replaces the user's standard input, as text; "" for the same."""

    @property
    def stands_in(self) -> str: ...

    def give(self) -> Given | None:
        """For one more worker; None is /dev/null."""

    def check(self) -> None:
        """Raises Refusal if a worker would have read more than it got."""


class _Whole:
    stands_in = ""

    def check(self) -> None:
        pass


class Nothing(_Whole):
    """For a standard input that is closed, a folder or /dev/null itself: workers get /dev/null."""

    def give(self) -> None:
        return None


class Terminal(_Whole):
    """Other terminals of the same size, without input: a read finds the end of the file."""

    stands_in = "a terminal of the same size at which nothing is typed"

    def give(self) -> Given | None:
        try:
            return terminal_like(0)
        except OSError:
            self.stands_in = "none, as there is no terminal left to give"
            return None


class File(_Whole):
    """The same file, opened again at the same place: no read affects other workers."""

    def __init__(self) -> None:
        """Raises OSError if it cannot be opened by us, or a second time as on macOS."""
        self._place = os.lseek(0, 0, os.SEEK_CUR)
        os.close(os.open(_AGAIN, os.O_RDONLY))

    def give(self) -> Given:
        again = os.open(_AGAIN, os.O_RDONLY)
        os.lseek(again, self._place, os.SEEK_SET)
        return Given(again)


class Stream:
    """Data is read as the first worker asks for it, and kept for all; at most ``most_bytes``."""

    stands_in = ""
    most_bytes = MOST_BYTES

    def __init__(self, folder: str) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self._kept = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._kept)
        self._size = 0
        self._ended = False
        self._cut = False
        self._reading = threading.Lock()

    def give(self) -> Given:
        theirs, ours = os.pipe()
        return Given(theirs, lambda: self._feed(ours))

    def check(self) -> None:
        if self._cut:
            raise Refusal(
                f"the script reads more than {self.most_bytes / 2**20:g} MB of what is piped to it, and no "
                "more is kept for its trials. Let it come from a file: hasten tune SCRIPT < FILE"
            )

    def _feed(self, pipe: int) -> None:
        told = 0
        with suppress(OSError):  # no longer read
            try:
                while chunk := self._at(told):
                    told += os.write(pipe, chunk)
            finally:
                os.close(pipe)

    def _at(self, place: int) -> bytes:
        """The data at ``place``, b"" at the end."""
        if place >= self._size:
            with self._reading:
                if place >= self._size and not self._ended:
                    self._read_on()
        return os.pread(self._kept, _CHUNK_BYTES, place)

    def _read_on(self) -> None:
        chunk = os.read(0, _CHUNK_BYTES)
        self._cut = self._size + len(chunk) > self.most_bytes
        self._ended = self._cut or not chunk
        chunk = b"" if self._cut else chunk
        while chunk:
            written = os.pwrite(self._kept, chunk, self._size)
            self._size, chunk = self._size + written, chunk[written:]


def standard_input(folder: str) -> StandardInput:
    """This process's standard input, for workers. ``folder`` is for data that must be kept."""
    if os.isatty(0):
        return Terminal()
    try:
        kind = os.fstat(0)
    except OSError:
        return Nothing()  # it is closed
    if stat.S_ISDIR(kind.st_mode) or _is_null(kind):
        return Nothing()
    with suppress(OSError):
        if stat.S_ISREG(kind.st_mode):
            return File()
    return Stream(folder)


def terminal_size() -> tuple[int, ...]:
    """Columns and lines of the terminal that our output goes to; () without one."""
    for descriptor in (1, 2):
        with suppress(OSError):
            return tuple(os.get_terminal_size(descriptor))
    return ()


def terminal_like(descriptor: int) -> Given:
    """A new terminal of the size of that one. Raises OSError if there is none left."""
    ours, theirs = os.openpty()
    with suppress(OSError):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(descriptor, termios.TIOCGWINSZ, _SIZE))
    fcntl.ioctl(ours, termios.TIOCPKT, b"\1\0\0\0")  # report when typed input is discarded (getpass does)
    os.write(ours, _NOTHING_TYPED)
    return Given(theirs, lambda: _attend(ours))


def _attend(terminal: int) -> None:
    """Serve it until it is no longer open."""
    with suppress(OSError):
        try:
            while said := os.read(terminal, _CHUNK_BYTES):
                if said[0] & termios.TIOCPKT_FLUSHREAD:
                    os.write(terminal, _NOTHING_TYPED)
        finally:
            os.close(terminal)


def _is_null(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev
