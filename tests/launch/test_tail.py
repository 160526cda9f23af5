"""The end of what a rank prints is kept."""

from __future__ import annotations

import os

import pytest

from hasten.launch.tail import Tail


def tail_of(*chunks: bytes) -> Tail:
    out, into = os.pipe()
    tail = Tail(os.fdopen(out, "rb"), shown=False)
    tail.start()
    for chunk in chunks:
        os.write(into, chunk)
    os.close(into)
    tail.join(60)
    return tail


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        (b"", []),
        (b"one\ntwo\nthree\n", ["two", "three"]),
        (b"one\nno newline", ["one", "no newline"]),
        (b"10%\r50%\r100%\ndone\n", ["100%", "done"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    ],
)
def test_its_last_lines(printed: bytes, kept: list[str]) -> None:
    assert tail_of(printed).lines(2) == kept


def test_of_much_only_the_end_stays() -> None:
    tail = tail_of(*[b"x" * 1023 + b"\n"] * 200, b"the end\n")
    lines = tail.lines(1000)
    assert lines[-1] == "the end"
    assert len(lines) <= 65


def test_one_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.launch.tail._LAST_WORDS_SECONDS", 0.01)
    out, into = os.pipe()
    tail = Tail(os.fdopen(out, "rb"), shown=False)
    tail.start()
    tail.finish()
    assert tail.is_alive()
    os.close(into)
    tail.join(60)
    assert not tail.is_alive()
