"""Objects that do something when they are collected, other than what the end of a process does anyway."""

from __future__ import annotations

import gc
import io
import socket
from collections.abc import Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType

_STANDARD_STREAMS = (0, 1, 2)
_PAUSED = (GeneratorType, CoroutineType, AsyncGeneratorType)
tracked_objects = gc.get_objects  # as it is before anything of ours replaces it


def with_finalizers(objects: Iterable[object]) -> str:
    """The kind of the first object that does something when it is collected, other than what the end of a
    process does anyway; "" for none.
    """
    kinds: dict[type, bool] = {}
    for one in objects:
        kind = type(one)
        if kind not in kinds:
            kinds[kind] = hasattr(kind, "__del__")
        if kinds[kind] and (_is_begun(one) if kind in _PAUSED else not _loses_nothing(one)):
            return kind.__qualname__
    return ""


def _loses_nothing(one: object) -> bool:
    """Sockets and unbuffered files are only closed; the standard streams are flushed by Python."""
    if type(one) in (socket.socket, io.FileIO, io.BytesIO, io.StringIO):
        return True
    if type(one).__module__ != "_io":
        return False
    try:
        return not one.writable() or one.fileno() in _STANDARD_STREAMS  # type: ignore[attr-defined]
    except ValueError:  # it is closed
        return True
    except Exception:  # whatever the object of the script's that it writes to raises
        return False


def _is_begun(one: object) -> bool:
    """Whether what follows its yield or await is to come yet, which may be a ``finally``."""
    frames = (getattr(one, name, None) for name in ("gi_frame", "cr_frame", "ag_frame"))
    return any(frame is not None for frame in frames)
