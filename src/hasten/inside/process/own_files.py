"""Files that only this user can have written: files that workers leave for each other or keep for later.

Loading a library or a pickle can run code from it.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
from types import ModuleType
from typing import Any

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def close_to_others(folder: str | os.PathLike[str]) -> None:
    """Let no other user write to a folder. Raises OSError if it is someone else's, or not a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{os.fspath(folder)} belongs to another user")
        if found.st_mode & _OTHERS_WRITE:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
    finally:
        os.close(descriptor)


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether it is a file that no other user can have written or replaced; a link is not."""
    try:
        file, folder = os.lstat(path), os.lstat(os.path.dirname(path) or ".")
    except OSError:
        return False
    return (
        stat.S_ISREG(file.st_mode)
        and stat.S_ISDIR(folder.st_mode)
        and all(
            found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE for found in (file, folder)
        )
    )


def load(torch: ModuleType, path: str | os.PathLike[str], **how: object) -> Any:
    """What ``torch.save`` wrote for us. Raises PermissionError if another user can have written it.

    Plain data is loaded as such (``weights_only``). An optimizer may keep objects that only pickle can load.
    """
    if not is_ours(path):
        raise PermissionError(f"{os.fspath(path)} may be another user's, so it is not loaded")
    try:
        with torch.serialization.safe_globals(_of_numpy()):
            return torch.load(path, weights_only=True, **how)
    except pickle.UnpicklingError:
        return torch.load(path, weights_only=False, **how)


def _of_numpy() -> list[object]:
    """The types that loading numpy's random state needs."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return []
    array = numpy.zeros(0, dtype=numpy.uint32)
    return [array.__reduce__()[0], numpy.ndarray, numpy.dtype, type(array.dtype)]
