"""Checkpoints on disk: plain bytes of tensors behind a JSON header, with a checksum; nothing is unpickled.

A file: magic (8 bytes), version and length of the header (2 x 8 bytes, little endian), header (UTF-8 JSON),
storages one after another, CRC-32 of all that (4 bytes). Files appear whole or not at all: they are written
beside, flushed to the disk and renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .cannot import Cannot

MAGIC, VERSION = b"HASTENCK", 2
_HEAD = struct.Struct("<8sQQ")
_SUM = struct.Struct("<I")
_NAME = re.compile(r"step-(\d{12})\.checkpoint")
_SEGMENT = "journal-{:012d}"
_TAIL = "journal-tail-{:012d}"
_UNFINISHED = re.compile(r"(step-\d{12}\.checkpoint|journal-\d{12})\.new")


class Damaged(Exception):
    """A file is not what was written: the message says how."""


@dataclass(frozen=True)
class Checkpoint:
    """``header`` has what the worker put there; ``body`` the bytes of all storages."""

    step: int
    header: dict[str, Any]
    body: memoryview


def lock(folder: str) -> int:
    """A descriptor that holds the folder for this process. Raises Cannot if another run holds it."""
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Cannot(
            f"another run writes its checkpoints to {folder}: wait for its end, or name another folder"
        ) from None
    return descriptor


def path_of(folder: str, step: int) -> str:
    return os.path.join(folder, f"step-{step:012d}.checkpoint")


def segment_of(folder: str, step: int) -> str:
    """The journal up to ``step``, from the checkpoint before it on."""
    return os.path.join(folder, _SEGMENT.format(step))


def tail_of(folder: str, step: int) -> str:
    """The journal since the checkpoint of ``step``, as far as it was written before the next."""
    return os.path.join(folder, _TAIL.format(step))


def read_tail(folder: str, step: int) -> bytes:
    """Empty where there is none."""
    try:
        with open(tail_of(folder, step), "rb") as file:
            return file.read()
    except OSError:
        return b""


def remove_tail(folder: str, step: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(tail_of(folder, step))


def remove_unfinished(folder: str) -> None:
    """What runs left that were killed while they wrote."""
    for name in filter(_UNFINISHED.fullmatch, os.listdir(folder)):
        os.unlink(os.path.join(folder, name))


def steps_in(folder: str) -> list[int]:
    """Steps of which there are checkpoints, the newest first."""
    found = (_NAME.fullmatch(name) for name in os.listdir(folder))
    return sorted((int(one[1]) for one in found if one is not None), reverse=True)


def steps_in_all(folders: Sequence[str]) -> list[int]:
    """Steps of which every rank has a checkpoint, the newest first."""
    return sorted(set.intersection(*(set(steps_in(folder)) for folder in folders)), reverse=True)


def write(folder: str, step: int, header: dict[str, Any], parts: Iterable[memoryview]) -> int:
    """Write one checkpoint; returns its size in bytes."""
    text = json.dumps({"step": step, **header}).encode()
    head = _HEAD.pack(MAGIC, VERSION, len(text)) + text
    return write_whole(path_of(folder, step), (memoryview(head), *parts), summed=True)


def write_whole(path: str, parts: Iterable[memoryview], summed: bool = False) -> int:
    """A file that appears complete; ``summed``: with the CRC-32 of its content at its end."""
    beside = f"{path}.new"
    total, crc = 0, 0
    try:
        with open(beside, "wb") as file:
            for part in parts:
                file.write(part)
                total, crc = total + len(part), zlib.crc32(part, crc)
            if summed:
                file.write(_SUM.pack(crc))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _to_disk(os.path.dirname(path))  # before older ones are deleted
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise
    return total


def _to_disk(folder: str) -> None:
    """The names in it, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)


def read(folder: str, step: int) -> Checkpoint:
    """Raises Damaged."""
    try:
        with open(path_of(folder, step), "rb") as file:
            content = memoryview(file.read())
    except OSError as error:
        raise Damaged(f"cannot be read ({error.strerror})") from error
    if content[: len(MAGIC)] != MAGIC:
        raise Damaged("is no checkpoint of hasten's")
    if len(content) < _HEAD.size + _SUM.size:
        raise Damaged("is cut short")
    _, version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        raise Damaged(f"has format {version}, and this hasten reads {VERSION}")
    body = content[: -_SUM.size]
    if zlib.crc32(body) != _SUM.unpack(content[-_SUM.size :])[0]:
        raise Damaged("is cut short or was changed: its checksum is wrong")
    header = json.loads(bytes(body[_HEAD.size : _HEAD.size + length]))
    if header["step"] != step:
        raise Damaged(f"is of step {header['step']}, not of step {step}")
    return Checkpoint(step, header, body[_HEAD.size + length :])


def header_of(folder: str, step: int) -> dict[str, Any]:
    """Without a look at the rest, and thus unchecked; {} where it is damaged."""
    try:
        with open(path_of(folder, step), "rb") as file:
            _, _, length = _HEAD.unpack(file.read(_HEAD.size))
            header: dict[str, Any] = json.loads(file.read(length))
    except (OSError, ValueError, struct.error, OverflowError, MemoryError):
        return {}
    return header


def read_segments(folder: str, segments: Iterable[tuple[int, int, int]]) -> bytes:
    """The journal of (step, bytes, CRC-32) one after another. Raises Damaged."""
    found = []
    for step, size, crc in segments:
        path = segment_of(folder, step)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise Damaged(f"needs {path}, which cannot be read ({error.strerror})") from error
        if len(content) != size or zlib.crc32(content) != crc:
            raise Damaged(f"needs {path}, which is cut short or was changed")
        found.append(content)
    return b"".join(found)


def prune(folder: str, folders: Sequence[str], keep: int, newest: int) -> None:
    """Delete all but the ``keep`` newest checkpoints up to ``newest``, and those after it, which are of a
    course that was left. ``folders``: of all ranks; what all have of one step counts, what is newer stays.
    """
    good = [step for step in steps_in_all(folders) if step <= newest]
    oldest = good[keep - 1] if len(good) >= keep else 0
    for step in steps_in(folder):
        if step < oldest or step > newest:
            os.unlink(path_of(folder, step))
