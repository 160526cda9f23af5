"""Records to JSON values and back: one function each way, driven by the dataclasses' annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin

R = TypeVar("R")
_PLAIN = frozenset((str, int, float, bool, type(None)))
_NAMES: dict[type[Any], tuple[str, ...]] = {}  # fields of dataclasses without a to_json, cached
_TYPES: dict[type[Any], dict[str, Any]] = {}  # with their types, cached because resolving them is slow


def to_json(value: Any) -> Any:
    """The JSON form of a record: dataclasses become objects and tuples arrays; a ``to_json`` method takes
    precedence.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    form = one_level(value)
    return value if form is value else to_json(form)


def one_level(value: Any) -> Any:
    """Like ``to_json`` for the record itself, with its parts as they are: a JSON encoder that calls this for
    each object it does not know is faster. Anything but a record comes back as it is.
    """
    kind = type(value)
    names = _NAMES.get(kind)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(kind):
        _NAMES[kind] = tuple(field.name for field in fields(kind))
        return one_level(value)
    return dict(value) if isinstance(value, Mapping) else value


def from_json(kind: type[R], data: Any) -> R:
    """The record of type ``kind`` that ``data`` describes.

    Unknown keys are ignored and missing ones take the field's default, so that a journal written by another
    version can be read. Raises TypeError if a required field is missing, or where something else stands.
    """
    return typing.cast(R, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    if kind in _PLAIN and type(data) is kind:
        return data
    origin, args = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _decode(next(arg for arg in args if arg is not type(None)), data)
    if hasattr(kind, "from_json"):
        return kind.from_json(data)
    if is_dataclass(kind):
        if not isinstance(data, Mapping):
            raise TypeError(f"{data!r} is no {getattr(kind, '__name__', kind)}")
        types_of = _types_of(typing.cast("type[Any]", kind))
        known = {name: _decode(of, data[name]) for name, of in types_of.items() if name in data}
        return typing.cast(Any, kind)(**known)
    if origin is tuple:
        if args and args[-1] is Ellipsis:
            return tuple(_decode(args[0], item) for item in data)
        return tuple(_decode(arg, item) for arg, item in zip(args, data, strict=True))
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {key: _decode(args[1], item) for key, item in data.items()}
    if kind is float:
        return float(data)
    return data


def _types_of(kind: type[Any]) -> dict[str, Any]:
    """A dataclass's fields with their types."""
    if kind not in _TYPES:
        hints = typing.get_type_hints(kind)
        _TYPES[kind] = {field.name: hints[field.name] for field in fields(kind)}
    return _TYPES[kind]
