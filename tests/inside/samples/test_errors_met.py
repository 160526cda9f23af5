"""Errors that the script's code meets are told, also those that it handles; those of libraries are not."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest

from hasten.inside.samples.errors_met import _ByMonitoring, errors_met


def opens_nothing() -> str:
    try:
        open("/nowhere/at/all")  # noqa: SIM115
    except OSError:
        return "a default"
    return ""


def fails_within() -> None:
    with suppress(ValueError):
        json.loads("{")


def fails_in_a_library() -> None:
    sys.modules.get("json")
    json.JSONDecoder(parse_float=float).decode("[1.0]")


def looks_up() -> int:
    try:
        return {"a": 1}["b"]
    except KeyError:
        return sum(value for value in iter([1, 2]))


def in_another_thread() -> None:
    thread = threading.Thread(target=opens_nothing)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("act", "met"),
    [
        (opens_nothing, "FileNotFoundError"),
        (fails_within, "JSONDecodeError"),
        (fails_in_a_library, ""),
        (looks_up, ""),
        (in_another_thread, ""),
    ],
)
def test_what_is_met(act: Callable[[], object], met: str) -> None:
    watch = errors_met()
    try:
        for _ in range(2):
            watch.begin()
            act()
            assert watch.end() == met
        opens_nothing()
        watch.begin()
        assert watch.end() == ""
    finally:
        watch.close()


class Monitoring:
    """As much of ``sys.monitoring`` as is used, for one tool next to another."""

    events = SimpleNamespace(RAISE=4)

    def __init__(self) -> None:
        self.tools: dict[int, str] = {4: "another's"}
        self.raised: Callable[..., object] | None = None
        self.on = False

    def get_tool(self, tool: int) -> str | None:
        return self.tools.get(tool)

    def use_tool_id(self, tool: int, name: str) -> None:
        assert tool not in self.tools
        self.tools[tool] = name

    def register_callback(self, tool: int, event: int, call: Callable[..., object]) -> None:
        assert event == self.events.RAISE
        self.raised = call

    def set_events(self, tool: int, events: int) -> None:
        assert tool != 4
        self.on = bool(events)

    def free_tool_id(self, tool: int) -> None:
        del self.tools[tool]


def test_what_is_monitored_since_python_3_12() -> None:
    monitoring = Monitoring()
    watch = _ByMonitoring(monitoring)
    for _ in range(2):
        watch.begin()
        assert monitoring.on
        assert monitoring.raised is not None
        monitoring.raised(json.loads.__code__, 0, ValueError())
        monitoring.raised(looks_up.__code__, 0, KeyError())
        assert watch.end() == ""
        watch.begin()
        monitoring.raised(looks_up.__code__, 0, OSError())
        assert watch.end() == "OSError"
        monitoring.raised(looks_up.__code__, 0, OSError())
        watch.close()
        assert not monitoring.on
        assert monitoring.tools == {4: "another's"}


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="nothing is traced since Python 3.12")
def test_a_debugger_is_left_alone() -> None:
    def traced(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        watch = errors_met()
        watch.begin()
        opens_nothing()
        assert watch.end() == ""
        assert sys.gettrace() is traced
    finally:
        sys.settrace(before)
