"""Why one of our files could not be written, as text."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import HastenError

if TYPE_CHECKING:
    import sqlite3

_LEAST_BYTES = 2**20
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota on the disk is used up",
    errno.EROFS: "the file system is read-only",
}


def is_full(error: OSError) -> bool:
    """Whether there is no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def why_lost(error: OSError | sqlite3.Error, path: Path | str) -> str:
    """``error`` came from writing to ``path``."""
    if isinstance(error, FileNotFoundError):
        return f"{path} was removed meanwhile"
    if isinstance(error, OSError):
        return _FULL.get(error.errno or 0, error.strerror or str(error))
    if "disk is full" in str(error):
        return _FULL[errno.ENOSPC]
    if not os.path.lexists(path):
        return f"{path} was removed meanwhile"
    return str(error)


def check_room(folder: Path | str) -> None:
    """Raises HastenError if ``folder`` may have no room for what a script prints or writes in a trial."""
    found = os.statvfs(folder)
    left = found.f_frsize * (found.f_bfree if os.geteuid() == 0 else found.f_bavail)
    if found.f_blocks and left < _LEAST_BYTES:  # a file system may not report it
        raise HastenError(
            f"the disk is full: {left / 2**10:.0f} KiB are left in {folder}, and trials write there. Make "
            "room and run again"
        )
