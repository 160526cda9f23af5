"""What a script did and what it was told, in the order in which it happened, so that it can be played back.

A record is a kind (1 byte), and for some a value: its type (1 byte), length (4 bytes) and bytes. Kinds:
a forward pass (with the random state after it, where the script drew numbers before the next), a backward
pass, gradients asked for, a step of an optimizer, a batch asked for, a fetched value, a clock, a
temporary folder.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from .cannot import Cannot, Diverged
from .large_values import Packed

FORWARD, BACKWARD, GRADIENTS, STEP, BATCH, VALUE, CLOCK, FOLDER = (
    b"F",
    b"B",
    b"G",
    b"S",
    b"N",
    b"v",
    b"t",
    b"T",
)
_WORDS = {
    FORWARD: "calls a model",
    BACKWARD: "goes backward",
    GRADIENTS: "asks for gradients",
    STEP: "steps its optimizer",
    BATCH: "asks a loader for a batch",
    VALUE: "reads a value",
    CLOCK: "reads a clock",
    FOLDER: "makes a temporary folder",
}
_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<d")
_WHOLE = struct.Struct("<q")
MOST_BYTES = 2**30  # of all: what a restart reads
_WHOLE_MOST = 2**63


class Writer:
    """Records in memory until they are taken. ``slot``: a record whose value may come later; nothing from
    there on is taken before it is settled.
    """

    def __init__(self, written: int = 0) -> None:
        self.bytes = written  # in all
        self._records: list[bytes] = []
        self._open = -1  # index of the slot

    def add(self, kind: bytes, value: object = None) -> None:
        record = kind + encoded(value)
        self.bytes += len(record)
        self._records.append(record)
        if self.bytes > MOST_BYTES:
            raise Cannot(
                f"what the script fetched and drew has come to {MOST_BYTES / 2**30:.0f} GiB, and a restart "
                "would have to play all of it back"
            )

    def open_slot(self) -> None:
        """The record that was added last may get another value."""
        self._open = len(self._records) - 1

    def settle(self, value: object = None) -> None:
        """The value of the open record; None leaves it as it is."""
        if self._open >= 0 and value is not None:
            old = self._records[self._open]
            self._records[self._open] = old[:1] + encoded(value)
            self.bytes += len(self._records[self._open]) - len(old)
        self._open = -1

    def take(self) -> bytes:
        """All that is settled, once."""
        end = self._open if self._open >= 0 else len(self._records)
        taken, self._records = self._records[:end], self._records[end:]
        self._open = 0 if self._open >= 0 else -1
        return b"".join(taken)


class Reader:
    """Plays a journal back."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def exhausted(self) -> bool:
        return self._at >= len(self._content)

    def next(self, kind: bytes) -> Any:
        """The value of the next record. Raises Diverged if it is of another kind."""
        found = self._content[self._at : self._at + 1]
        if found != kind:
            then = f"it {_WORDS.get(found, 'was elsewhere')}" if found else "the checkpoint was taken"
            raise Diverged(f"the script {_WORDS[kind]} where {then} in the run that is continued")
        value, self._at = decoded(self._content, self._at + 1)
        return value


def encoded(value: object) -> bytes:
    """Of None, numbers, text, bytes, what JSON can say, and what was compressed."""
    kind = type(value)
    if value is None:
        return b"0"
    if kind is float:
        return b"f" + _NUMBER.pack(value)
    if kind is bool:
        return b"1" if value else b"2"
    if kind is int and -_WHOLE_MOST <= value < _WHOLE_MOST:  # type: ignore[operator]
        return b"i" + _WHOLE.pack(value)
    if kind is bytes:
        return b"b" + _LENGTH.pack(len(value)) + value  # type: ignore[arg-type, operator]
    if isinstance(value, Packed):
        return (b"Z" if value.is_text else b"z") + _LENGTH.pack(len(value.data)) + value.data
    text = json.dumps(value).encode()
    return b"j" + _LENGTH.pack(len(text)) + text


def decoded(content: bytes, at: int) -> tuple[Any, int]:
    """A value, and where the next record begins. Raises Diverged at the end of a journal that was cut."""
    kind, at = content[at : at + 1], at + 1
    if kind in (b"0", b"1", b"2"):
        return {b"0": None, b"1": True, b"2": False}[kind], at
    try:
        if kind == b"f":
            return _NUMBER.unpack_from(content, at)[0], at + _NUMBER.size
        if kind == b"i":
            return _WHOLE.unpack_from(content, at)[0], at + _WHOLE.size
        (length,) = _LENGTH.unpack_from(content, at)
    except struct.error:
        raise Diverged("the journal ends in the middle of a record") from None
    at += _LENGTH.size
    data = content[at : at + length]
    if len(data) < length:
        raise Diverged("the journal ends in the middle of a record")
    if kind in (b"z", b"Z"):
        return Packed(data, kind == b"Z").value(), at + length
    return data if kind == b"b" else json.loads(data), at + length
