"""torch's compiler, imported only once something uses it.

Each optimizer of torch imports ``torch._dynamo`` when it is made, which takes about a second, to say what a
compiler is to leave alone. Where nothing is compiled, nobody reads that. In its place stands a module that
answers the two questions which optimizers ask (``disable``, ``graph_break``). Asked for anything else, it
makes way for the real one, and what was left alone until then is said anew.

Source: torch/_compile.py and torch/optim/optimizer.py of torch 2.9 to 2.15.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
_CACHED = "__dynamo_disable"  # where torch._compile keeps what ``disable`` returned


class LazyDynamo(ModuleType):
    """Stands in for ``torch._dynamo``."""

    def __init__(self) -> None:
        super().__init__(NAME)
        found = importlib.util.find_spec(NAME)
        assert found is not None, "torch has it"
        own = {"__spec__": found, "__file__": found.origin, "__package__": NAME, "__loader__": found.loader}
        vars(self).update(own, _left_alone=[], graph_break=_nothing, disable=self._disable)

    def _disable(self, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        """torch's own functions are left alone by all who do not compile; they are told anew later."""
        if is_lazy() and function is not None and kwargs == {"wrapping": False}:
            vars(self)["_left_alone"].append(function)
            return function
        return self._real().disable(function, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Of the real one. Python's own questions about a module (``inspect``) import nothing, but where a
        package's modules are found is asked to import one of them.
        """
        if name.startswith("__") and name != "__path__":
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real(), name, value)

    def __dir__(self) -> list[str]:
        return dir(self._real())

    def _real(self) -> ModuleType:
        if sys.modules.get(NAME) is self:
            take_away()
        return importlib.import_module(NAME)


def put_in_place() -> bool:
    """Whether it stands in now; not where the real one was imported already. torch must be imported."""
    if NAME in sys.modules:
        return is_lazy()
    sys.modules[NAME] = vars(sys.modules["torch"])["_dynamo"] = LazyDynamo()
    return True


def is_lazy() -> bool:
    """Whether the real one has not been imported yet."""
    return isinstance(sys.modules.get(NAME), LazyDynamo)


def take_away() -> None:
    """Who asks for ``torch._dynamo`` from now on gets the real one."""
    lazy = sys.modules.get(NAME)
    if not isinstance(lazy, LazyDynamo):
        return
    del sys.modules[NAME]
    vars(sys.modules["torch"]).pop("_dynamo", None)
    for function in vars(lazy)["_left_alone"]:
        vars(function).pop(_CACHED, None)
    vars(lazy)["_left_alone"].clear()


def _nothing(msg: str = "") -> None:
    """``torch._dynamo.graph_break``: what nobody compiles is not broken."""
