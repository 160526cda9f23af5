"""What the script's own functions and classes depend on besides their arguments: globals, attributes of the
script's modules, environment variables.
"""

from __future__ import annotations

import dis
import os
import sys
import types
from collections.abc import Iterator
from functools import lru_cache

from ..package import PACKAGE

INSTALLED = (
    *(f"site-packages{os.sep}", f"dist-packages{os.sep}", os.path.dirname(os.__file__) + os.sep),
    PACKAGE + os.sep,  # replacements of a class's methods by techniques
)
_ASK_THE_ENVIRONMENT = {"environ", "getenv"}


def is_librarys(name: str | None) -> bool:
    """Whether a module came with Python or was installed: a script does not change its globals."""
    if name == "__main__":
        return False
    path = getattr(sys.modules.get(name or ""), "__file__", None) or ""
    return not path or any(part in path for part in INSTALLED)


def _is_ours(part: object) -> bool:
    return str(getattr(part, "__module__", None)).startswith("hasten.")


def parts_of(kind: type) -> Iterator[tuple[str, object]]:
    """What a class holds, without what Python or a technique put there; methods as plain functions."""
    for name, part in vars(kind).items():
        said_by_python = name.startswith("__") and (not callable(part) or name.startswith("__annotat"))
        said_by_python |= name.startswith("_abc_") or isinstance(part, types.MemberDescriptorType)
        if not (said_by_python or _is_ours(part)):
            yield name, getattr(part, "__func__", getattr(part, "fget", part))


def named_by(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """Each global that a function's code reads, by name. For one of the script's modules also those of its
    attributes whose names occur in the code.
    """
    asked, every = _names(function.__code__)
    for name in sorted(asked & function.__globals__.keys()):
        found = function.__globals__[name]
        yield name, found
        if isinstance(found, types.ModuleType) and not is_librarys(found.__name__):
            for one in sorted(every & vars(found).keys()):
                yield f"{name}.{one}", vars(found)[one]


def environment_named_by(function: types.FunctionType) -> dict[str, str | None]:
    """Environment variables that a function may read, with their values."""
    if not _ASK_THE_ENVIRONMENT & _names(function.__code__)[1]:
        return {}
    return {name: os.environ.get(name) for name in sorted(_texts(function.__code__)) if name}


@lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals that code asks for, that of functions within it too; and all names in it."""
    asked = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    every = set(code.co_names)
    for inner in _within(code):
        names = _names(inner)
        asked |= names[0]
        every |= names[1]
    return frozenset(asked), frozenset(every)


def _texts(code: types.CodeType) -> set[str]:
    texts = {constant for constant in code.co_consts if isinstance(constant, str)}
    return texts.union(*map(_texts, _within(code)))


def _within(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
