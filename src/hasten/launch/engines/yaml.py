"""YAML for what others submit. Every text is written as JSON has it, which YAML reads as the same text.

Source: https://yaml.org/spec/1.2.2/, section 1.3 (JSON is a subset).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | None | Mapping[str, "Value"] | Sequence["Value"]


class Block(str):
    """Text of several lines that are written as they are, for a person to read."""


def yaml(value: Mapping[str, Value]) -> str:
    """A document. Keys are ours."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Mapping[str, Value], indent: str) -> Iterator[str]:
    for key, inner in value.items():
        name = key if key.replace("_", "").isalnum() else json.dumps(key)
        if isinstance(inner, Block):
            yield f"{indent}{name}: |"
            yield from (f"{indent}  {line}".rstrip() for line in inner.rstrip("\n").split("\n"))
        elif isinstance(inner, Mapping) and inner:
            yield f"{indent}{name}:"
            yield from _lines(inner, f"{indent}  ")
        elif isinstance(inner, Sequence) and not isinstance(inner, str) and inner:
            yield f"{indent}{name}:"
            for item in inner:
                yield from _item(item, indent)
        else:
            yield f"{indent}{name}: {json.dumps(inner)}"


def _item(item: Value, indent: str) -> Iterator[str]:
    if not isinstance(item, Mapping):
        yield f"{indent}- {json.dumps(item)}"
        return
    first, *others = _lines(item, f"{indent}  ")
    yield f"{indent}- {first.strip()}"
    yield from others
