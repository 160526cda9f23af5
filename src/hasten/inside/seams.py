"""The only place where anything in Python or torch is replaced. Every replacement has its undo."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import update_wrapper
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")
Call = Callable[..., object]
"""A function of the script or torch: its arguments and result are only passed on."""
PREPARED = "__prepare_scriptable__"  # of a function: what torch.jit compiles in its place
Args: TypeAlias = tuple[object, ...]
Kwargs: TypeAlias = dict[str, object]


class Seams:
    """Replacements in force, undone in reverse order.

    What we do around a script's own calls is either **watching** or a technique's. If watching fails, the
    script must not: then all seams are given up, once, ``on_failure`` gets the reason, and the script runs on
    as without us.
    """

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self.in_force: list[tuple[object, object]] = []  # (replacement, original)
        self._undo: list[Callable[[], None]] = []
        self._on_failure = on_failure
        self.given_up = False

    def watching(self, watch: Callable[P, Result]) -> Callable[P, Result | None]:
        """``watch``, except that an error gives up the seams instead of reaching the script, and returns
        None.
        """

        def watched(*args: P.args, **kwargs: P.kwargs) -> Result | None:
            if self.given_up:
                return None
            try:
                return watch(*args, **kwargs)
            except Exception as error:
                self.give_up(error)
                return None

        return watched

    def give_up(self, error: BaseException) -> None:
        """Undo everything and report why. Without ``on_failure`` (for example in tests), raises the error."""
        if self._on_failure is None:
            raise error
        if self.given_up:
            return
        self.given_up = True
        with suppress(Exception):
            self.undo_all()
        self._on_failure(error)

    def replace(self, owner: object, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
        """Put ``make(original)`` in place of ``owner.name``; returns the undo, which may be called once,
        early.
        """
        present = name in vars(owner)
        original = vars(owner)[name] if present else getattr(owner, name)
        plain = original.__func__ if isinstance(original, staticmethod) else original
        made = make(plain)
        if name != "__setattr__":  # of the script's classes: ours is known there by its module
            _look_like(made, plain)
        if isinstance(owner, ModuleType) and isinstance(plain, BuiltinFunctionType):
            _found_at(made, owner.__name__, name)
        setattr(owner, name, staticmethod(made) if isinstance(original, staticmethod) else made)
        pair = made, plain
        self.in_force.append(pair)

        def undo() -> None:
            self.in_force[:] = [one for one in self.in_force if one is not pair]
            if present:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        return self.on_undo(undo)

    def on_undo(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Register the undo of something done elsewhere (for example a hook's ``handle.remove``)."""
        done = False

        def once() -> None:
            nonlocal done
            if not done:
                done = True
                with suppress(ValueError):  # all are being undone
                    self._undo.remove(once)
                undo()

        self._undo.append(once)
        return once

    def undo_all(self) -> None:
        """Undo every replacement, even if one undo fails: that error is raised at the end."""
        with ExitStack() as stack:
            for undo in self._undo:
                stack.callback(undo)
            self._undo.clear()


def _look_like(made: object, original: object) -> None:
    """What is a wrapper around a function has its name and signature, which libraries read, and torch.jit
    compiles that function instead.
    """
    if not (isinstance(made, FunctionType) and isinstance(original, FunctionType)):
        return
    if not hasattr(made, "__wrapped__") and any(_held(cell) is original for cell in made.__closure__ or ()):
        update_wrapper(made, original, updated=())
        made.__dict__[PREPARED] = getattr(original, PREPARED, lambda: original)


def _found_at(made: object, module: str, name: str) -> None:
    """What stands for a function of C has its name, by which it is pickled."""
    if isinstance(made, FunctionType):
        made.__module__, made.__name__, made.__qualname__ = module, name, name


def _held(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # it is empty


def when_it_comes(seams: Seams, name: str, act: Callable[[ModuleType], None]) -> None:
    """``act`` on a module once the script has imported it, or now; never after the seams were undone."""
    seam = ImportSeam(name, seams.watching(act))

    def forget() -> None:
        if seam in sys.meta_path:
            sys.meta_path.remove(seam)

    seams.on_undo(forget)
    seam.install()


class ImportSeam(importlib.abc.MetaPathFinder):
    """Calls ``after(module)`` once module ``name`` has executed, whenever the script imports it.

    It stays until then: libraries call ``find_spec("torch")`` without importing, and a finder that removed
    itself at the first question would miss the real import.
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

    def _follow(self, loader: Any) -> None:  # its own attribute hides its class's method for a while
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # another seam waiting for the same module may have
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._after(module)

        loader.exec_module = exec_module
