"""The line of a script that led to a call, and the library's line in between."""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from inspect import CO_GENERATOR
from types import FrameType, ModuleType

from ..package import PACKAGE

_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_PASSED_THROUGH = tuple(  # they wrap the script's own loops and calls
    f"{folder}{name}{os.sep}"
    for folder in _INSTALLED
    for name in ("tqdm", "rich", "fastprogress", "accelerate")
)
_PASSED, _LIBRARY, _SCRIPT = range(3)
"""Whose code it is: one whose caller tells more; a library's; the script's, or that of its own modules."""


class Place:
    """Finds the line in the user's code, or in their libraries, that led to a call."""

    def __init__(self, torch: ModuleType) -> None:
        self._ours = PACKAGE + os.sep
        self._examples = (
            os.path.join(PACKAGE, "examples") + os.sep
        )  # shipped with us, but run like any script
        self._torch = os.path.dirname(torch.__file__ or "") + os.sep
        self._loading = os.path.join(self._torch, "utils", "data", "")
        self._pythons = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
        self._start = ""  # the working directory; it may have been removed
        with suppress(OSError):
            self._start = os.getcwd() + os.sep
        self._whose: dict[str, int] = {}  # by path: it is asked of many frames for each value that is fetched
        self._names: dict[str, str] = {}  # by path: what it is told as

    def is_no_scripts(self, frame: FrameType) -> bool:
        """Whether it is ours, or reads samples for a loader, where nothing waits for a device."""
        path = frame.f_code.co_filename
        return self._is_ours(path) or path.startswith(self._loading)

    def is_passed_over(self, frame: FrameType) -> bool:
        """Whether its code is neither the script's nor that of a library which trains."""
        return self._kind(frame) == _PASSED

    def of_caller(self) -> str:
        """ "train.py:12", the path from the working directory if it is below; "" if not found.

        A library's line, or that of a generator of the script's own, may serve several loops: then the line
        of the script that led there comes first, as in "train.py:12 via ignite/engine/engine.py:1083".
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self._kind(frame) == _PASSED:
            frame = frame.f_back
        if frame is None:
            return ""
        line, above = self._line(frame), self._caller(frame)
        return line if above is None else f"{self._line(above)} via {line}"

    def _caller(self, frame: FrameType) -> FrameType | None:
        """The script's, if that tells more; None if not, or if there is none."""
        if self._kind(frame) == _SCRIPT and not _is_generators(frame):
            return None
        above = frame.f_back
        while above is not None and (self._kind(above) != _SCRIPT or _is_generators(above)):
            above = above.f_back
        return above

    def _line(self, frame: FrameType) -> str:
        path = frame.f_code.co_filename
        name = self._names.get(path)
        if name is None:
            name = self._names[path] = self._name(path)
        return f"{name}:{frame.f_lineno}"

    def _name(self, path: str) -> str:
        """A library's path from its package on."""
        for folder in _INSTALLED:
            if folder in path:
                return os.path.normpath(path.rpartition(folder)[2])
        path = os.path.normpath(path)
        return path.removeprefix(self._start) if self._start else path

    def _kind(self, frame: FrameType) -> int:
        path = frame.f_code.co_filename
        kind = self._whose.get(path)
        if kind is None:
            kind = self._kind_of(path)
            if not path.startswith("<"):  # there may be any number of these
                self._whose[path] = kind
        return kind

    def _kind_of(self, path: str) -> int:
        """Passed are ours, torch, Python, a progress bar, and executed text ("<string>")."""
        if self._is_ours(path) or path.startswith((self._torch, "<")):
            return _PASSED
        if any(folder in path for folder in _PASSED_THROUGH):
            return _PASSED
        if any(folder in path for folder in _INSTALLED) and not path.startswith(self._examples):
            return _LIBRARY
        return _PASSED if path.startswith(self._pythons) else _SCRIPT

    def _is_ours(self, path: str) -> bool:
        return path.startswith(self._ours) and not path.startswith(self._examples)


def _is_generators(frame: FrameType) -> bool:
    """Whether it is a function that yields, as around the batches of a loop; no expression in brackets."""
    code = frame.f_code
    return bool(code.co_flags & CO_GENERATOR) and code.co_name != "<genexpr>"
