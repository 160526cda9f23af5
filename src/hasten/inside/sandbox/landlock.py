"""Keep this process, and everything it starts, from writing outside a few folders, by Landlock.

Linux 5.13 and later. For systems without overlays, such as many containers. A write is not redirected but
denied: it fails with EACCES, a move across folders with EXDEV. Everything may be read and executed. It cannot
be undone. A restricted process can neither mount nor unmount, nor trace or look into unrestricted ones.

Not denied: changes of mode, owner, times and extended attributes; truncate(2) by name before Linux 6.2; and
writing to files that are already open.

Sources: landlock(7), landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2), and the
kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence

from . import mounts

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every current architecture
_ASK_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_REMOVE = 1 << 4 | 1 << 5  # folders, files
_MAKE = sum(1 << bit for bit in range(6, 13))  # devices, folders, files, sockets, pipes, symbolic links
_REFER = 1 << 13  # rename and link from one folder to another

_SYSTEM = ("/dev", "/proc", "/sys")  # no files of anybody's

_libc = ctypes.CDLL(None, use_errno=True)


def deny_writes(but: Sequence[str]) -> None:
    """Deny this process writing except below the folders ``but``, and in /dev and /proc. Call it
    before any thread starts.

    Raises OSError if the kernel has no Landlock or refuses: then the process can write as before.
    """
    rights = writing(version())
    handled = struct.pack("=Q", rights)
    ruleset = _asked(_CREATE_RULESET, handled, len(handled), 0)
    try:
        for path in (*_SYSTEM, *but):
            _grant(ruleset, path, rights)
        if not mounts.is_admin() and _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise _refusal()
        _asked(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def version() -> int:
    """The version of the kernel's Landlock (its ABI), at least 1. Raises OSError if it has none."""
    return _asked(_CREATE_RULESET, None, 0, _ASK_VERSION)


def writing(version: int) -> int:
    """All rights of that version to change the content of a folder. Other rights, such as ioctl on devices,
    are not restricted.
    """
    rights = _WRITE_FILE | _REMOVE | _MAKE
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    return rights


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it is gone by now
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
    """A system call; each argument is as wide as a register. Raises OSError if it is refused."""
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in (call, *arguments)]
    result = int(_libc.syscall(*wide))
    if result < 0:
        raise _refusal()
    return result


def _refusal() -> OSError:
    return OSError(f"the kernel refused Landlock: {os.strerror(ctypes.get_errno())}")
