"""Files that are as the run that ended left them, later than the checkpoint that is gone on from.

The script is not to go by them before it has written them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import FrameType

from .cannot import Diverged

_LISTING = ("/glob.py", "/pathlib.py", "/os.py", "<frozen os>", "/pathlib/_local.py", "/pathlib/_abc.py")
_WROTE = "which the run that ended wrote after the checkpoint"


class LaterFiles:
    """``stop`` gets why the run must end, and does not return."""

    def __init__(self, stop: Callable[[Exception], None]) -> None:
        self._stop = stop
        self._changed: set[str] = set()
        self._new: set[str] = set()  # among them: that were not there at the checkpoint, as far as is known
        self._others: dict[str, list[int]] = {}  # among them: that other ranks write, as they are

    def begin(self, changed: Iterable[str], before: Iterable[str], others: Iterable[str] = ()) -> None:
        """``before``: those that were there. ``others``: those that other ranks wrote."""
        self._others = {path: size_and_time(path) for path in others}
        self._changed = {path for path in (*changed, *self._others) if os.path.lexists(path)}
        self._new = self._changed - set(before) - set(self._others)

    def names(self) -> list[str]:
        return sorted(self._changed)

    def __contains__(self, path: str) -> bool:
        return path in self._changed

    def drop(self, path: str) -> None:
        """It was written again, or is as it was."""
        self._changed.discard(path)
        self._new.discard(path)

    def is_read(self, path: str) -> None:
        if path in self._others and size_and_time(path) != self._others[path]:
            self.drop(path)  # another rank has written it again
        if path in self._changed:
            self._stop(Diverged(f"the script reads {path}, {_WROTE}, and has not been written again yet"))

    def is_added_to(self, path: str) -> None:
        if path in self._new:
            self._stop(Diverged(f"the script adds to {path}, {_WROTE} for the first time"))

    def is_listed(self, folder: str) -> None:
        for path in self._new:
            if os.path.dirname(path) == folder:
                self._stop(Diverged(f"the script lists {folder}, where {path} is, {_WROTE}"))


def size_and_time(path: str) -> list[int]:
    """[] where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]


def check_there(saved: Iterable[str], folders: list[str]) -> None:
    """Raises Diverged where a file in a temporary folder is gone: it was taken away with the run."""
    for path in saved:
        if any(path.startswith(folder + os.sep) for folder in folders) and not os.path.lexists(path):
            raise Diverged(
                f"{path} is gone: the run that ended took away the temporary folder that it had saved it in"
            )


def is_asked_by(frame: FrameType | None, is_local: Callable[[str], bool]) -> bool:
    """Whether it is the script that lists a folder, and may go by it: libraries tidy up."""
    while frame is not None and frame.f_code.co_filename.endswith(_LISTING):
        frame = frame.f_back
    return frame is not None and is_local(frame.f_code.co_filename)
