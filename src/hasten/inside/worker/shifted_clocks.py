"""Clocks that run ahead for all code except Python's, torch's and ours: does the training depend on time?

A year passes in the first step and some hours in each later one, so any time limit is exceeded.
"""

from __future__ import annotations

import datetime
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any

from ..package import PACKAGE
from ..seams import Seams

_AT_FIRST = 366 * 24 * 3600
_EACH_STEP = 5 * 3600  # so that every hour of a day occurs
_NAMES = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_NANO = 10**9
_DATETIME = datetime.datetime


class Clocks:
    """Created before the script starts. ``step_ended`` moves the clocks ahead; until it is called, they are
    right. Of ``datetime``, only ``now``, ``utcnow`` and ``today`` run ahead.
    """

    def __init__(self) -> None:
        self._seconds = 0
        paths = sysconfig.get_paths()
        self._excepted = tuple(folder + os.sep for folder in (paths["stdlib"], paths["platstdlib"], PACKAGE))

    def install(self, seams: Seams) -> None:
        for name in _NAMES:
            seams.replace(time, name, lambda original: _Clock(original, self._ahead, 1))
            seams.replace(time, f"{name}_ns", lambda original: _Clock(original, self._ahead, _NANO))
        seams.replace(datetime, "datetime", lambda original: _stand_in(self._ahead))

    def step_ended(self) -> None:
        self._seconds += _EACH_STEP if self._seconds else _AT_FIRST

    def _ahead(self, file: str) -> int:
        """How many seconds the clocks are ahead for code of ``file``."""
        _, installed, below = file.rpartition("-packages" + os.sep)
        if installed:
            return 0 if below.startswith("torch" + os.sep) else self._seconds
        return 0 if file.startswith(("<frozen", *self._excepted)) else self._seconds


class _Clock:
    """Not a function, which would become a method as a class attribute; a builtin does not, either."""

    def __init__(self, original: Callable[[], float], ahead: Callable[[str], int], units: int) -> None:
        self._original, self._ahead, self._units = original, ahead, units

    def __call__(self) -> float:
        return self._original() + self._ahead(sys._getframe(1).f_code.co_filename) * self._units


def _stand_in(ahead: Callable[[str], int]) -> type:
    """A class that replaces ``datetime.datetime`` and creates instances of the original class."""

    def later(made: datetime.datetime, file: str) -> datetime.datetime:
        return made + datetime.timedelta(seconds=ahead(file))

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _DATETIME)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, _DATETIME)

    class StandIn(_DATETIME, metaclass=Kind):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _DATETIME(*args, **kwargs)

        @staticmethod
        def now(tz: datetime.tzinfo | None = None) -> Any:
            return later(_DATETIME.now(tz), sys._getframe(1).f_code.co_filename)

        @staticmethod
        def utcnow() -> Any:
            return later(_DATETIME.utcnow(), sys._getframe(1).f_code.co_filename)

        @staticmethod
        def today() -> Any:
            return later(_DATETIME.today(), sys._getframe(1).f_code.co_filename)

    StandIn.__name__ = StandIn.__qualname__ = "datetime"
    StandIn.__module__ = "datetime"
    return StandIn
