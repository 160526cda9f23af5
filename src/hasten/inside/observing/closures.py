"""The closure passed to an optimizer's step: when it is evaluated, and for how long. Its time is not the
update's, even if no seam sees what it computes, such as passes of a frozen network through which a picture is
trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, MethodType

from ..seams import Args, Call, Kwargs

_FUNCTIONS = (FunctionType, MethodType, partial)  # not a module, which some optimizers get
_NAME = "closure"


def with_timed_closure(
    args: Args, kwargs: Kwargs, begins: Callable[[], None], took: Callable[[float], None]
) -> tuple[Args, Kwargs] | None:
    """The arguments of an optimizer's step, itself first, with a closure that tells that it begins, and then
    its seconds; None if there is no closure.
    """
    if len(args) > 1 and isinstance(args[1], _FUNCTIONS):
        return (args[0], _timed(args[1], begins, took), *args[2:]), kwargs
    named = kwargs.get(_NAME)
    if isinstance(named, _FUNCTIONS):
        return args, {**kwargs, _NAME: _timed(named, begins, took)}
    return None


def _timed(closure: Call, begins: Callable[[], None], took: Callable[[float], None]) -> Call:
    @wraps(closure)
    def timed(*args: object, **kwargs: object) -> object:
        begins()
        began = time.perf_counter()
        try:
            return closure(*args, **kwargs)
        finally:
            took(time.perf_counter() - began)

    return timed
