"""The only place where anything of Python's or torch's is replaced. Every replacement has its undo."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class Seams:
    """Replacements in force, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
        """Put ``make(original)`` in place of ``owner.name``; returns the undo, which may be called once,
        early.
        """
        present = name in vars(owner)
        original = vars(owner)[name] if present else getattr(owner, name)
        plain = original.__func__ if isinstance(original, staticmethod) else original
        made = make(plain)
        setattr(owner, name, staticmethod(made) if isinstance(original, staticmethod) else made)

        def undo() -> None:
            if present:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        return self.on_undo(undo)

    def on_undo(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Register what takes something back that was done elsewhere (a hook's ``handle.remove``, say)."""
        done = False

        def once() -> None:
            nonlocal done
            if not done:
                done = True
                undo()

        self._undo.append(once)
        return once

    def undo_all(self) -> None:
        while self._undo:
            self._undo.pop()()


class ImportSeam(importlib.abc.MetaPathFinder):
    """Calls ``after(module)`` once module ``name`` has executed, whenever the script imports it.

    It stays until then: libraries ask ``find_spec("torch")`` without importing, and a finder that left at the
    first question would miss the real import.
    """

    def __init__(self, name: str, after: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._after = after

    def install(self) -> None:
        module = sys.modules.get(self._name)
        if module is not None:
            self._after(module)
        else:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self not in sys.meta_path:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (
            finder.find_spec(fullname, path, target) for finder in others if hasattr(finder, "find_spec")
        )
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._after(module)

        loader.exec_module = exec_module
