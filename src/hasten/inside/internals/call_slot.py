"""What hasten puts in a module's ``compiled_call``, which torch consults first and does not save."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from .modules import holds_call

if TYPE_CHECKING:
    from torch.nn import Module


class CallSlot:
    """Stands in for the call of one module. Copies and pickles hold None in its place, where a class's own
    ``__getstate__`` does not leave it out (LSTM's, Lightning's).
    """

    def __init__(self, module: Module) -> None:
        from torch.compiler import is_dynamo_compiling

        self.module = weakref.ref(module)  # it holds us: a strong reference would keep it alive
        self._is_compiled = is_dynamo_compiling  # its graph would break where we look at a frame

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()

    def clone(self) -> Module | None:
        """The module that torch calls, if it is not ours but a clone that was made by copying ``__dict__``,
        us included. For ``__call__`` alone, which torch's frame calls. 0.2 us.
        """
        if self._is_compiled():
            return None
        called: Module | None = sys._getframe(2).f_locals.get("self")
        return None if called is self.module() or not holds_call(called, self) else called
