"""Keep this process, and all that it starts, from writing below folders: Landlock, Linux 5.13 and later.

For where no overlay can be laid, as in many containers. A write is not led elsewhere but denied: it fails
with EACCES, a move across folders with EXDEV. Everything may be read and executed. There is no way back.

Landlock grants what lies below a folder, and cannot take a part of it out again. So writing is granted to all
that lies beside the way from ``/`` down to a protected folder. That denies one thing too many: to make, move
or remove entries directly in a folder that a protected one lies in, such as ``/`` or the home folder.

Not denied: changes of mode, owner, times and extended attributes; truncate(2) by name before Linux 6.2; the
same files by another name, where a file has one outside (hard link) or the folder is mounted a second time;
and files that are open before.

Sources: landlock(7), landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2), and the
kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath

from . import mounts

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture of today
_ASK_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_REMOVE = 1 << 4 | 1 << 5  # folders, files
_MAKE = sum(1 << bit for bit in range(6, 13))  # devices, folders, files, sockets, pipes, symbolic links
_REFER = 1 << 13  # rename and link from one folder to another

_libc = ctypes.CDLL(None, use_errno=True)


def deny_writes(folders: Sequence[str], layers: str = "") -> None:
    """Deny this process to write below ``folders``, but for ``layers``. Call it before any thread starts.

    Raises OSError where the kernel has no Landlock or refuses: then the process may write as before.
    """
    rights = writing(version())
    handled = struct.pack("=Q", rights)
    ruleset = _asked(_CREATE_RULESET, handled, len(handled), 0)
    try:
        for path in granted(folders, layers):
            _grant(ruleset, path, rights)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise _refusal()
        _asked(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def version() -> int:
    """Of the kernel's Landlock (its ABI), at least 1. Raises OSError where it has none."""
    return _asked(_CREATE_RULESET, None, 0, _ASK_VERSION)


def writing(version: int) -> int:
    """All rights of that version that change what lies in a folder. A right that is not among them, such as
    ioctl on devices, stays as it was.
    """
    rights = _WRITE_FILE | _REMOVE | _MAKE
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    return rights


def granted(folders: Sequence[str], layers: str = "") -> list[str]:
    """Below which paths writing must be granted so that it is denied below ``folders``, but for ``layers``.

    These are the entries of all folders that a protected one lies in, except those on the way to one. Left
    out is what may be a protected file or folder under another name: symbolic links, files with several
    names, and mounts that show a part of a protected folder, or what it is a part of.
    """
    roots = {os.path.realpath(folder) for folder in folders}
    way = {str(parent) for root in roots for parent in PurePath(root).parents}
    above = sorted(folder for folder in way if not _is_below(folder, roots))
    found = mounts.mounted()
    points = {mount.point for mount in found}
    inside = [_origin(path, found) for path in (*roots, *points) if _is_below(path, roots)]
    paths = [
        path
        for folder in above
        for path in _entries(folder)
        if path not in way | roots and not (path in points and _overlaps(_origin(path, found), inside))
    ]
    kept = os.path.realpath(layers) if layers else ""
    if kept and _is_below(kept, roots) and kept not in way | roots:
        paths.append(kept)
    return paths


def _is_below(path: str, roots: set[str]) -> bool:
    return any(mounts.below(path, root) for root in roots)


def _entries(folder: str) -> Iterator[str]:
    """Those that have one name only. None where the folder cannot be listed: then nothing is granted."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it has gone since
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) or (found.st_nlink == 1 and not stat.S_ISLNK(found.st_mode)):
                    yield entry.path


def _origin(path: str, found: Sequence[mounts.Mount]) -> tuple[str, str]:
    """The file system that holds ``path``, and the path within it."""
    mount = mounts.holder(path, found)
    return mount.device, os.path.normpath(os.path.join(mount.root, os.path.relpath(path, mount.point)))


def _overlaps(place: tuple[str, str], others: Sequence[tuple[str, str]]) -> bool:
    return any(
        place[0] == other[0] and (mounts.below(place[1], other[1]) or mounts.below(other[1], place[1]))
        for other in others
    )


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it has gone since
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            rights &= _WRITE_FILE | _TRUNCATE
        _asked(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _asked(call: int, *arguments: int | bytes | None) -> int:
    """A system call; each argument is as wide as a register. Raises OSError where it is refused."""
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in (call, *arguments)]
    result = int(_libc.syscall(*wide))
    if result < 0:
        raise _refusal()
    return result


def _refusal() -> OSError:
    return OSError(f"the kernel refused Landlock: {os.strerror(ctypes.get_errno())}")
