"""A script imports what Python would find without us, even if a user's module is called ``hasten``, or has
the name of a standard module that we have already imported.

Source: https://docs.python.org/3/reference/import.html
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import ModuleType

_PACKAGE = __name__.partition(".")[0]
_by_us: set[str] = set()  # imported before the script began, and not by Python's startup


def remember(before: Collection[str]) -> None:
    """Note what we have imported ourselves: all modules loaded now and not ``before``."""
    _by_us.update(name.partition(".")[0] for name in set(sys.modules).difference(before))


def give_way() -> None:
    """Let the script find its own modules. Call it when ``sys.path`` is the script's; once."""
    if _PACKAGE not in _by_us:
        return  # we were not started as a worker
    sys.meta_path.insert(0, _Hasten(sys.modules.pop(_PACKAGE)))
    for name in _shadowed(_before_pythons_own(sys.path), _by_us - {_PACKAGE}):
        for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[loaded]  # our modules keep their references to it


def _before_pythons_own(path: Iterable[str]) -> Iterator[str]:
    pythons = os.path.dirname(os.__file__)
    for entry in path:
        if entry == pythons:
            return
        yield entry or os.getcwd()


def _shadowed(folders: Iterable[str], names: Collection[str]) -> list[str]:
    """Those of ``names`` that Python would import from one of ``folders``."""
    there: dict[str, list[str]] = {}
    for folder in folders:
        with suppress(OSError):
            for name in {entry.partition(".")[0] for entry in os.listdir(folder)}.intersection(names):
                there.setdefault(name, []).append(folder)
    return [name for name, where in there.items() if _is_found(name, where)]


def _is_found(name: str, folders: list[str]) -> bool:
    if BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
        return False  # these come before any path
    found = PathFinder.find_spec(name, folders)
    return found is not None and found.origin is not None  # a folder without __init__.py comes last


class _Hasten(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the user's module of our name, if there is one, and otherwise us, wherever we are installed."""

    def __init__(self, ours: ModuleType) -> None:
        self._ours, self._spec = ours, ours.__spec__

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PACKAGE:
            return None
        found = PathFinder.find_spec(fullname)
        if found is not None and not _is_hasten(found):
            return found
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._ours

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _is_hasten(found: ModuleSpec) -> bool:
    """Whether it is hasten, of any version."""
    folders = found.submodule_search_locations or ()
    return any(os.path.isfile(os.path.join(folder, "inside", "bootstrap.py")) for folder in folders)
