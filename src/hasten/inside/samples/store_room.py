"""Room for new sample stores: which older ones are removed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress

from .store_files import Store
from .store_folders import locked, open_folder, open_ours, remove, size_of

_FOUND_AGAIN = "again"  # in a store's folder: a later process had use for it
_FOR_THIS_RUN = "this-run"  # trusted only while a living process holds this file locked
_MOST_NEVER_FOUND = 3


def make_room(folder: str, path: str, in_use: set[str], most_bytes: int) -> bool:
    """Remove stores in ``folder``, the longest unused first, until at most ``most_bytes`` are left without
    the one at ``path``, and say whether that is so. Those ``in_use`` and those that are being written stay;
    readers of the others can continue.
    """
    sizes = {other: size_of(other) for other in _oldest_first(folder, {path})}
    left = sum(sizes.values())
    for other, size in sizes.items():
        if left > most_bytes and other not in in_use:
            left -= size * _removed(other)
    return left <= most_bytes


def thin_out(folder: str, family: str, in_use: set[str]) -> None:
    """Remove stores that no later process has reused, except the newest few: a script whose data set differs
    in each run fills a new store each time.
    """
    found = []
    for path in _oldest_first(folder, in_use):
        store = Store.open(path)
        if store is None:
            continue
        store.close()
        if store.header.family == family and not os.path.exists(os.path.join(path, _FOUND_AGAIN)):
            found.append(path)
    for path in found[:-_MOST_NEVER_FOUND]:
        _removed(path)


def found_again(path: str) -> None:
    """This process uses a store that another made."""
    with suppress(OSError):
        os.close(_marked(path, _FOUND_AGAIN))


def hold_for_this_run(path: str) -> int:
    """The store is good only for this run. Returns a descriptor to be kept open as long as it is used; -1
    if there are no locks.
    """
    with suppress(OSError):
        file = _marked(path, _FOR_THIS_RUN)
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return file
        os.close(file)
    return -1


def is_for_one_run(path: str) -> bool:
    """Whether a store may only be used by the run that filled it."""
    return os.path.exists(os.path.join(path, _FOR_THIS_RUN))


def is_left_over(path: str) -> bool:
    """Whether a store was good for a run that is over."""
    if not is_for_one_run(path):
        return False
    with suppress(OSError):
        file = _marked(path, _FOR_THIS_RUN)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(file)
    return False


def _marked(path: str, name: str) -> int:
    folder = open_folder(path)
    try:
        return open_ours(folder, name, os.O_RDWR | os.O_CREAT)
    finally:
        os.close(folder)


def _oldest_first(folder: str, but: set[str]) -> Iterator[str]:
    """Stores, by time of last use."""
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path not in but and os.path.isdir(path) and not os.path.islink(path):
            with suppress(OSError):
                found.append((os.stat(path).st_mtime, path))
    return (path for _, path in sorted(found))


def _removed(path: str) -> bool:
    with suppress(OSError), locked(path) as alone:
        if alone:
            remove(path)
            os.unlink(f"{path}.lock")
            return True
    return False
