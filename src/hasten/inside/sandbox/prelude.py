"""What a worker's script wrote before its first step, kept for later workers: downloads, caches."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress

_LARGE_BYTES = 2**26
_MOST_BYTES = 2**30


def keep(upper: str, to: str, most_bytes: int = _MOST_BYTES) -> None:
    """Copy an overlay's upper to the new folder ``to``, to use as a lower layer of later overlays.

    Deletions are copied too: a whiteout, character device 0:0, stands for a deleted file, and an extended
    attribute marks a folder that replaced another. Sockets and pipes are not: they end with their owner. If
    the files have more than ``most_bytes``, the large ones are linked: that takes no time or disk, and later
    writes to them are visible through the link. Unreadable entries are left out.

    Raises OSError if ``to`` cannot be made.
    """
    os.mkdir(to)
    linked = _bytes_below(upper, most_bytes) > most_bytes
    folders = [(upper, to)]
    for source, target in folders:  # grows
        with suppress(OSError), os.scandir(source) as entries:
            for entry in entries:
                made = os.path.join(target, entry.name)
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        os.mkdir(made, 0o700)
                        folders.append((entry.path, made))
                    else:
                        _keep_file(entry, made, linked)
    for source, target in reversed(
        folders
    ):  # a folder may become inaccessible, and its time is that of its last entry
        with suppress(OSError):
            for name in os.listxattr(source):
                if ".overlay." in name:  # copystat silently ignores what `to` cannot hold
                    os.setxattr(target, name, os.getxattr(source, name))
        _copy_facts(source, target)


def _keep_file(entry: os.DirEntry[str], made: str, linked: bool) -> None:
    found = entry.stat(follow_symlinks=False)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
        os.mknod(made, stat.S_IFCHR)
    elif stat.S_ISREG(found.st_mode) and linked and found.st_size >= _LARGE_BYTES:
        os.link(entry.path, made, follow_symlinks=False)
    elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
        shutil.copyfile(entry.path, made, follow_symlinks=False)
        _copy_facts(entry.path, made)


def _copy_facts(source: str, target: str) -> None:
    with suppress(OSError):
        found = os.lstat(source)
        if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    with suppress(OSError):
        shutil.copystat(source, target, follow_symlinks=False)


def _bytes_below(folder: str, enough: int) -> int:
    """Bytes of all files on disk; stops counting above ``enough``."""
    count, folders = 0, [folder]
    while folders and count <= enough:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        count += entry.stat(follow_symlinks=False).st_blocks * 512
    return count
