"""torch's compiler, imported only once something uses it.

Every torch optimizer imports ``torch._dynamo`` when it is created, which takes about a second, only to mark
what a compiler must leave alone. If nothing is compiled, nothing reads that. It is replaced by a module that
handles the two calls that optimizers make (``disable``, ``graph_break``). For anything else it makes way for
the real one, and repeats the marks made until then. Libraries import a function of its utils at their own
import, and call it later if ever (torchvision does): they get one that asks the real one then.

Source: torch/_compile.py and torch/optim/optimizer.py of torch 2.9 to 2.15; torchvision/ops/roi_align.py.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
_UTILS = f"{NAME}.utils"
_CALLED_LATER = ("is_compile_supported",)  # of its utils: what libraries import long before they call it
_CACHED = "__dynamo_disable"  # where torch._compile keeps what ``disable`` returned


class _Lazy(ModuleType):
    """Replaces a module until something asks for what only the real one has."""

    def _real(self) -> ModuleType:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """The real module's attribute. Python's own look-ups on a module (``inspect``) import nothing."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real(), name, value)

    def __dir__(self) -> list[str]:
        return dir(self._real())


class LazyDynamo(_Lazy):
    """Replaces ``torch._dynamo``."""

    def __init__(self, on_use: Callable[[], None] | None) -> None:
        super().__init__(NAME)
        found = importlib.util.find_spec(NAME)
        assert found is not None, "torch has it"
        own: dict[str, Any] = {
            "__spec__": found,
            "__file__": found.origin,
            "__package__": NAME,
            "__loader__": found.loader,
        }
        own["__path__"] = found.submodule_search_locations
        own |= {"_left_alone": [], "on_use": on_use}
        vars(self).update(own, graph_break=_nothing, disable=self._disable)

    def _disable(self, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Without a compiler nothing touches torch's own functions; the marks are repeated later."""
        if is_lazy() and function is not None and kwargs == {"wrapping": False}:
            if vars(self)["on_use"] is None:
                vars(self)["_left_alone"].append(function)
                return function
            take_away()  # this is not what is watched for
        return self._real().disable(function, *args, **kwargs)

    def _real(self) -> ModuleType:
        if sys.modules.get(NAME) is self:
            _make_way()
        return importlib.import_module(NAME)


class _LazyUtils(_Lazy):
    """Replaces ``torch._dynamo.utils``."""

    def __init__(self) -> None:
        super().__init__(_UTILS)
        vars(self).update({name: _asked_later(name) for name in _CALLED_LATER}, __package__=NAME)

    def _real(self) -> ModuleType:
        return _real_utils()


def _real_utils() -> ModuleType:
    _make_way()
    return importlib.import_module(_UTILS)


def _asked_later(name: str) -> Callable[..., Any]:
    """The function of that name, imported when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(_real_utils(), name)(*args, **kwargs)

    return call


class _Finder(importlib.abc.MetaPathFinder):
    """Makes way for the real one before one of its modules is imported: it imports most of them itself, and
    none may be executed twice.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{NAME}.") or self not in sys.meta_path:
            return None
        _make_way()
        importlib.import_module(NAME)
        # otherwise Python would take its own spec, and execute it again
        found = sys.modules.pop(fullname, None)
        return None if found is None else importlib.util.spec_from_loader(fullname, _Loaded(found))


class _Loaded(importlib.abc.Loader):
    """Loader for a module that has been imported meanwhile."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        with suppress(AttributeError):  # option modules reject attributes: theirs is unchanged
            module.__spec__ = self._spec


def put_in_place(on_use: Callable[[], None] | None = None) -> bool:
    """Returns whether it is in place; not if the real one was imported already. Needs torch imported.

    With ``on_use`` it only watches: an optimizer gets the real one at once, and ``on_use`` is called if
    something needs more of it before any optimizer is created.
    """
    if NAME in sys.modules:
        return is_lazy()
    sys.modules[NAME] = vars(sys.modules["torch"])["_dynamo"] = LazyDynamo(on_use)
    sys.modules[_UTILS] = _LazyUtils()
    sys.meta_path.insert(0, _Finder())
    return True


def is_lazy() -> bool:
    """Whether the real one has not been imported yet."""
    return isinstance(sys.modules.get(NAME), LazyDynamo)


def _make_way() -> None:
    """Something needs the real one."""
    on_use = vars(sys.modules[NAME]).get("on_use") if is_lazy() else None
    take_away()
    if on_use is not None:
        on_use()


def take_away() -> None:
    """From now on ``torch._dynamo`` is the real one."""
    lazy = sys.modules.get(NAME)
    if not isinstance(lazy, LazyDynamo):
        return
    del sys.modules[NAME]
    sys.modules.pop(_UTILS, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    vars(sys.modules["torch"]).pop("_dynamo", None)
    for function in vars(lazy)["_left_alone"]:
        vars(function).pop(_CACHED, None)
    vars(lazy)["_left_alone"].clear()


def _nothing(msg: str = "") -> None:
    """``torch._dynamo.graph_break``: there is no graph to break."""
