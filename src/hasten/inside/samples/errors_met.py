"""Errors that the script's own code meets while it makes samples, even if it handles them: a substitute for a
file that could not be read, or for an answer that did not arrive, must not be kept as a sample.

Errors inside libraries are not counted. Errors that control the flow (a key missing in a dict) occur each
time, and do not count. If something else traces this process, for example a debugger, nothing is seen.

Sources: https://docs.python.org/3/library/sys.monitoring.html, and sys.settrace before Python 3.12
"""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Protocol

from .script_code import INSTALLED

_USUAL = (LookupError, AttributeError, ImportError, StopIteration, StopAsyncIteration, GeneratorExit)
_NAME = "hasten: errors of samples"
_TOOLS = (4, 3, 5, 2, 1, 0)  # tool ids; the first ones are for debuggers, coverage and profilers


class ErrorsMet(Protocol):
    """Errors in the thread that calls ``begin``, until it calls ``end``."""

    def begin(self) -> None: ...

    def end(self) -> str:
        """The kind of an error that was met; "" for none."""

    def close(self) -> None:
        """Stop watching until it begins again."""


@lru_cache(maxsize=1)
def errors_met() -> ErrorsMet:
    """The instance of this process."""
    monitoring = getattr(sys, "monitoring", None)
    return _ByTracing() if monitoring is None else _ByMonitoring(monitoring)


class _ByTracing:
    def __init__(self) -> None:
        self._met = ""

    def begin(self) -> None:
        self._met = ""
        if sys.gettrace() is None:
            sys.settrace(self._called)

    def end(self) -> str:
        self.close()
        return self._met

    def close(self) -> None:
        if sys.gettrace() == self._called:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not _is_own(frame.f_code.co_filename):
            return None
        frame.f_trace_lines = False
        return self._in_own_code

    def _in_own_code(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and not issubclass(argument[0], _USUAL):
            self._met = argument[0].__name__
        return self._in_own_code


class _ByMonitoring:
    """Costs nothing until an error is raised."""

    def __init__(self, monitoring: Any) -> None:
        self._monitoring = monitoring
        self._met = ""
        self._thread = 0
        self._tool: int | None = None

    def begin(self) -> None:
        if self._tool is None:
            self._open()
        self._met, self._thread = "", threading.get_ident()

    def _open(self) -> None:
        monitoring = self._monitoring
        self._tool = next((tool for tool in _TOOLS if monitoring.get_tool(tool) is None), None)
        if self._tool is not None:
            monitoring.use_tool_id(self._tool, _NAME)
            monitoring.register_callback(self._tool, monitoring.events.RAISE, self._raised)
            monitoring.set_events(self._tool, monitoring.events.RAISE)

    def end(self) -> str:
        self._thread = 0
        return self._met

    def close(self) -> None:
        if self._tool is not None:
            self._monitoring.set_events(self._tool, 0)
            self._monitoring.free_tool_id(self._tool)
            self._tool = None

    def _raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        mine = self._thread and self._thread == threading.get_ident()
        if mine and not isinstance(error, _USUAL) and _is_own(code.co_filename):
            self._met = type(error).__name__


@lru_cache(maxsize=4096)
def _is_own(filename: str) -> bool:
    """Whether code is the script's, not a library's."""
    return not filename.startswith("<frozen") and not any(part in filename for part in INSTALLED)
