"""Folders for what trials write: created among temporary files, where others can write, too.

Whatever we trust, remove or chmod there is checked by descriptor, never by path: another user could put a
link in its place at any moment.

    layers = make_layers() ... remove_layers(layers)
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from . import mounts

_PREFIX = "hasten-"
_LOCK = ".in-use"  # in a folder for layers, locked by the process that made it
_NEW_LOCK = ".in-use.new"  # until it is locked
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENOUGH_BYTES = 2**31
_held: dict[str, int] = {}  # layers made by this process -> the lock that says it is alive


def make_layers(announce: Callable[[str], object] = lambda path: None) -> str:
    """Create a folder for layers where the kernel supports them; "" if there is none. ``announce`` gets each
    before it is created.

    Preferably on a disk with room: on a tmpfs, what trials write takes memory. This user's layers left by a
    killed process are removed.
    """
    for parent in _places():
        with suppress(OSError):
            _remove_abandoned(parent)
            made = os.path.join(parent, _PREFIX + secrets.token_hex(8))
            announce(made)
            os.mkdir(made, 0o700)
            if _can_hold_layers(made):
                _held[made] = _locked(made)
                return made
            os.rmdir(made)
    return ""


def remove_layers(layers: str) -> None:
    """Remove what ``make_layers`` created, as far as this user may. Never raises."""
    with suppress(OSError, ValueError):
        parent, name = os.path.split(layers)
        if name:
            with _opened(os.path.realpath(parent)) as above:
                _remove_folder(name, above)
    if layers in _held:
        os.close(_held.pop(layers))


def _places() -> list[str]:
    """Where layers may be created, best first."""
    candidates = (tempfile.gettempdir(), "/var/tmp", os.path.expanduser("~/.cache"), "/dev/shm")
    found = [path for path in dict.fromkeys(map(os.path.realpath, candidates)) if os.path.isdir(path)]
    return sorted(found, key=lambda path: (_is_memory(path), shutil.disk_usage(path).free < _ENOUGH_BYTES))


def _is_memory(path: str) -> bool:
    try:
        return mounts.kind_at(path) in ("tmpfs", "ramfs")
    except OSError:  # there is no /proc
        return False


def _can_hold_layers(path: str) -> bool:
    """Whether an upper may be here: not on an overlay, and only where an overlay's marks can be stored."""
    try:
        namespace = "trusted" if mounts.is_admin() and not mounts.in_user_namespace() else "user"
        os.setxattr(path, f"{namespace}.hasten", b"")
        return mounts.kind_at(path) != "overlay"
    except (OSError, AttributeError):  # AttributeError: not on Linux
        return False


def _locked(made: str) -> int:
    """The lock of a new folder. It gets its name once it is held: or the folder would look abandoned."""
    with _opened(made) as folder:
        lock = os.open(
            _NEW_LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
        )
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(_NEW_LOCK, _LOCK, src_dir_fd=folder, dst_dir_fd=folder)
    return lock


# ---- left by killed processes
def _remove_abandoned(parent: str) -> None:
    """Remove the layers in ``parent`` whose lock is no longer held."""
    with _opened(parent) as above:
        for name in os.listdir(above):
            if name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(name, above)


def _remove_if_abandoned(name: str, above: int) -> None:
    """Raises OSError if it is not ours, or in use."""
    with _opened(name, above) as folder:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            return  # mkdtemp's folders are closed to others, so nobody else can have put anything into them
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            found = os.fstat(lock)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_folder(name, above, os.fstat(folder))
        finally:
            os.close(lock)


def _remove_folder(name: str, above: int, expected: os.stat_result | None = None) -> None:
    """Remove a folder in ``above`` and everything below it, however deep. ``expected``: only if it is still
    that one.

    Folders below are moved up first and then emptied, so that few descriptors are open at a time.
    """
    with _opened(name, above) as top:
        found = os.fstat(top)
        if expected is not None and not os.path.samestat(found, expected):
            return
        device = found.st_dev
        waiting = _empty(top, top, device)
        while waiting:
            inner = waiting.pop()
            with suppress(OSError):
                with _opened(inner, top) as folder:
                    waiting += _empty(folder, top, device)
                os.rmdir(inner, dir_fd=top)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)


def _empty(folder: int, top: int, device: int) -> list[str]:
    """Remove all files in ``folder``, and move its folders up into ``top``: their names there."""
    moved = []
    with suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(list(entries)):
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                _make_accessible(entry.name, folder, device)
                name = entry.name
                if folder != top:
                    name = f"{entry.inode()}-{number}-{os.urandom(8).hex()}"
                    os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(name)
            except OSError:
                continue
    return moved


def _make_accessible(name: str, folder: int, device: int) -> None:
    """Overlays leave a folder with mode 000, and scripts make folders read-only.

    Such a folder cannot be opened for fchmod(2); its O_PATH descriptor's entry in /proc identifies it.
    Raises OSError if something is mounted there.
    """
    seen = getattr(os, "O_PATH", os.O_RDONLY)  # macOS has no overlays, and no O_PATH
    descriptor = os.open(name, seen | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if found.st_dev != device:
            raise OSError(f"{name} is a mount")
        if stat.S_IMODE(found.st_mode) & stat.S_IRWXU != stat.S_IRWXU and found.st_uid == os.geteuid():
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
    finally:
        os.close(descriptor)


@contextmanager
def _opened(path: str, folder: int | None = None) -> Iterator[int]:
    """A folder's descriptor; not a link's. Raises OSError."""
    descriptor = os.open(path, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
