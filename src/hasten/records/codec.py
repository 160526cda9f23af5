"""Records to JSON values and back. One function each way, driven by the annotations of the dataclasses."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

R = TypeVar("R")


def to_json(value: Any) -> Any:
    """The JSON form of a record: dataclasses become objects, tuples arrays; a ``to_json`` method has the
    say.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[R], data: Any) -> R:
    """The record of type ``kind`` that ``data`` describes.

    Unknown keys are ignored and missing ones take the field's default, so that a journal written by another
    version can be read. Raises TypeError where a required field is missing.
    """
    return typing.cast(R, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _decode(next(arg for arg in args if arg is not type(None)), data)
    if hasattr(kind, "from_json"):
        return kind.from_json(data)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        known = {
            f.name: _decode(hints[f.name], data[f.name]) for f in dataclasses.fields(kind) if f.name in data
        }
        return typing.cast(Any, kind)(**known)
    if origin is tuple:
        if args and args[-1] is Ellipsis:
            return tuple(_decode(args[0], item) for item in data)
        return tuple(_decode(arg, item) for arg, item in zip(args, data, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(args[1], item) for key, item in data.items()}
    if kind is float:
        return float(data)
    return data
