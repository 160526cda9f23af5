"""A worker's output is kept as it is, and heard line by line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.bench.workers.listening import Tee


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ((b"one\ntwo\n",), [b"one", b"two"]),
        ((b"half a li", b"ne\n"), [b"half a line"]),
        ((b"10%\r20%\rdone\n",), [b"10%", b"20%", b"done"]),
        ((b"no end",), [b"no end"]),
        ((), []),
    ],
    ids=["lines", "in pieces", "progress", "no newline", "nothing"],
)
def test_lines(tmp_path: Path, pieces: tuple[bytes, ...], lines: list[bytes]) -> None:
    reading, writing = os.pipe()
    heard: list[bytes] = []
    tee = Tee(os.fdopen(reading, "rb"), tmp_path / "stdout", heard.append)
    for piece in pieces:
        os.write(writing, piece)
    os.close(writing)
    tee.join(60)
    assert heard == lines
    assert (tmp_path / "stdout").read_bytes() == b"".join(pieces)
