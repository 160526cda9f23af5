"""The folders of sample stores: locks, and files that only this user can write.

Files are opened like the coordinator's in ``safe_files``: no link is followed, and only this user's plain
files that nobody else can write are used.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEADER = "header.json"  # of a store
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotOurs(OSError):
    """A file or folder is a link, another user's, or open to others; the message names it."""


@contextmanager
def locked(path: str) -> Iterator[bool]:
    """Whether only this process may write the store at ``path``; does not wait. Children that are
    forked within hold the lock, too, until they end.
    """
    file = -1
    try:
        file = _locked_file(f"{path}.lock")
        yield file >= 0
    finally:
        if file >= 0:
            os.close(file)


def _locked_file(path: str) -> int:
    """A descriptor; -1 where another process has the lock, or there are no locks."""
    while True:
        folder = open_folder(os.path.dirname(path))
        try:
            file = open_ours(folder, os.path.basename(path), os.O_RDWR | os.O_CREAT)
        finally:
            os.close(folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file)):
                    return file
        except OSError:
            os.close(file)
            return -1
        os.close(file)  # it was removed before we had the lock


def size_of(path: str) -> int:
    """Bytes on disk of the files in a store's folder."""
    return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in os.scandir(path))


def remove(path: str) -> None:
    """Remove the folder and all files in it, its header first."""
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return
    for name in sorted(names, key=lambda name: name != HEADER):
        os.unlink(os.path.join(path, name))
    os.rmdir(path)


def is_full(error: OSError) -> bool:
    """Whether there is no room left on the disk or in this user's quota, or the file is too large."""
    return error.errno in _FULL


def open_ours(folder: int, name: str, flags: int) -> int:
    """Open a plain file of this user's in a folder of ours; a new one is closed to others. Raises NotOurs."""
    how = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(name, how, 0o600, dir_fd=folder)
    found = os.fstat(file)
    plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if not plain or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        os.close(file)
        raise NotOurs(errno.EPERM, "it is not a plain file that only this user can write", name)
    return file


def open_folder(path: str) -> int:
    """The descriptor of a folder that only this user can write. Raises NotOurs."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        os.close(folder)
        raise NotOurs(errno.EPERM, "it is not a folder that only this user can write", path)
    return folder
