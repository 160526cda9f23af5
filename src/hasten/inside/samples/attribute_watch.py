"""Notices attributes that a script sets on its own objects, through their classes' ``__setattr__``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from ..seams import Call, Seams


class AttributeWatch:
    """``changed`` gets each instance of a watched class on which an attribute was set."""

    def __init__(self, seams: Seams, changed: Callable[[object], None]) -> None:
        self._seams = seams
        self._changed = changed
        self._undo: list[Callable[[], None]] = []
        self._watched: set[type] = set()

    def watch(self, parts: Iterable[object]) -> None:
        """The classes of these objects, from now on."""
        for part in parts:
            kind = type(part)
            if kind in self._watched or not hasattr(part, "__dict__"):
                continue
            self._watched.add(kind)
            with suppress(TypeError):  # a plain function: its kind is not to be changed, nor is it
                self._undo.append(self._seams.replace(kind, "__setattr__", self._watching))

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._watched.clear()

    def _watching(self, original: Call) -> Call:
        def __setattr__(instance: object, name: str, value: object) -> None:
            original(instance, name, value)
            self._changed(instance)

        return __setattr__
