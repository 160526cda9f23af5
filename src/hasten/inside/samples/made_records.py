"""Samples by their index as plain bytes (``stored_form``), one record after another in a file; those that are
read back are views of the file's memory.
"""

from __future__ import annotations

import os
import struct
from types import ModuleType
from typing import Any

from ..process.collector import without_collections
from .files_read import FileMark
from .stored_form import decode, encode

Made = tuple[object, list[FileMark]]
"""A sample, and files that it was made from."""
_RECORD = struct.Struct("<QQQ")  # index, bytes of the layout, bytes of the body
_ALIGNED = 64
_BUFFER = 2**20  # bytes
_MOST_PARTS = 1000  # Linux writes up to 1024 at once


class RecordWriter:
    """Appends to the file behind a descriptor, whose length is a multiple of 64 bytes. ``written``: bytes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._parts: list[bytes] = []
        self._waiting = 0  # bytes of them
        self.written = 0

    def add(self, index: int, made: object) -> None:
        """Raises Unstorable, with nothing of it added, and OSError."""
        layout, body = encode(made)
        head = _RECORD.pack(index, len(layout), len(body)) + layout
        for part in (head + bytes(-len(head) % _ALIGNED), body, bytes(-len(body) % _ALIGNED)):
            self._parts.append(part)
            self._waiting += len(part)
        if self._waiting > _BUFFER or len(self._parts) > _MOST_PARTS:
            self.flush()

    def flush(self) -> None:
        """What waits is a multiple of 64 bytes, so that the next record starts at one."""
        if not self._waiting:
            return
        wrote = os.writev(self._file, self._parts)
        rest = memoryview(b"".join(self._parts))[wrote:] if wrote < self._waiting else memoryview(b"")
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self.written += self._waiting
        self._parts, self._waiting = [], 0


def read_records(torch: ModuleType, whole: memoryview) -> dict[int, Any]:
    """What was made, by index, in the order of writing. ``whole`` begins with a record, at a multiple of 64
    bytes in memory.
    """
    found, at = {}, 0
    with without_collections():
        while at < len(whole):
            index, layout_bytes, body_bytes = _RECORD.unpack_from(whole, at)
            layout = bytes(whole[at + _RECORD.size : at + _RECORD.size + layout_bytes])
            at = _aligned(at + _RECORD.size + layout_bytes)
            found[index] = decode(torch, layout, whole[at : at + body_bytes], copied=False)
            at = _aligned(at + body_bytes)
    return found


def _aligned(at: int) -> int:
    return at + -at % _ALIGNED
