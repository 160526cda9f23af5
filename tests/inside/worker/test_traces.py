"""Errors as text, where Python can make it and where it cannot any more."""

from __future__ import annotations

import traceback

import pytest

from hasten.inside.worker.traces import trace_of


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def test_it_is_pythons_own_text() -> None:
    error = caught(KeyError("lr"))
    assert trace_of(error) == "".join(traceback.format_exception(error))


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("error", "last"),
    [
        (KeyError("lr"), "KeyError: 'lr'"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent: <exception str() failed>"),
    ],
)
def test_it_names_the_place_and_the_error_where_python_fails(
    error: Exception, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_longer(*_: object) -> list[str]:
        raise AttributeError("module 'sys' has no attribute 'builtin_module_names'")

    raised = caught(error)
    monkeypatch.setattr(traceback, "format_exception", no_longer)
    lines = trace_of(raised).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith(f'  File "{__file__}", line ')
    assert lines[1].endswith(", in caught")
    assert lines[2:] == [last]
