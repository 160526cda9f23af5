"""torch.compile for calls of modules that stay as they are: how often it compiled, and what that took."""

from __future__ import annotations

import os
import types
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..internals.call_slot import CallSlot
from ..internals.compiler import (
    failure_kind,
    graph_breaks,
    graphs,
    seconds_compiling,
    usual_cache_folder,
)
from ..internals.modules import hook_numbers, newest_hook, plain_call
from ..internals.other_functions import leaves
from ..seams import Args, Call, Kwargs

if TYPE_CHECKING:
    from torch.nn import Module

_SEEN_BEFORE_COMPILING = 3  # calls with further shapes before they are worth compiling
_SHARE = 4  # and at least one call in this many
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@dataclass(frozen=True)
class Tally:
    """What torch.compile has done in this process so far."""

    graphs: int = 0
    breaks: int = 0
    seconds: float = 0.0  # spent compiling, forward and backward

    def since(self, before: Tally) -> Tally:
        return Tally(self.graphs - before.graphs, self.breaks - before.breaks, self.seconds - before.seconds)

    def plus(self, other: Tally) -> Tally:
        return Tally(self.graphs + other.graphs, self.breaks + other.breaks, self.seconds + other.seconds)


def tally() -> Tally:
    """Reads torch's own counters."""
    return Tally(graphs(), graph_breaks(), seconds_compiling())


class CompiledCall:
    """The compiled call of a module, or of several similar ones, which then share the compiled code.

    ``static``: each shape is compiled separately; rare ones, such as an epoch's last batch, are left to the
    module's own call. Otherwise one compiled form serves all shapes. A module whose parts have other hooks
    than before is compiled separately, too, as torch does not look at hooks again.
    """

    def __init__(self, torch: ModuleType, name: str, static: bool, **how: Any) -> None:
        self._torch = torch
        self._name, self._how = name, how
        self._compiled: dict[tuple[int, ...], Call] = {}  # by hooks
        self._hooks: weakref.WeakKeyDictionary[Module, tuple[int, tuple[int, ...]]] = (
            weakref.WeakKeyDictionary()
        )
        self._static = static
        self._calls: Counter[object] = Counter()  # by signature
        self._taken: set[object] = set()
        self.failure = ""
        self.begin()

    def begin(self) -> None:
        """Reset the counters. What is compiled stays."""
        self._met: set[object] = set()
        self.compiled_calls = 0
        self.left_calls = 0  # not compiled, because their shapes or hooks are too rare
        self.late_graphs = 0  # made in a call that was not the first with its shapes

    def __call__(self, module: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        """``call`` is the module's own."""
        if self.failure:
            return call(*args, **kwargs)
        hooks = self._hooks_of(module)
        signature = (module.training, _shapes(self._torch, (args, kwargs)) if self._static else None, hooks)
        if not self._worth_compiling(signature):
            self.left_calls += 1
            return call(*args, **kwargs)
        before = graphs()
        try:
            output = self._compiled_for(hooks)(module, args, kwargs)
        except failure_kind() as error:
            self.failure = f"torch cannot compile it: {type(error).__name__}: {error}".split("\n")[0]
            return call(*args, **kwargs)
        self.compiled_calls += 1
        if signature in self._met:
            self.late_graphs += graphs() - before
        self._met.add(signature)
        self._taken.add(signature)
        return output

    def _hooks_of(self, module: Module) -> tuple[int, ...]:
        """The numbers of its and its parts' hooks."""
        newest = newest_hook(self._torch)
        before, known = self._hooks.get(module, (-1, ()))
        if newest == before and not known:
            return known
        found = hook_numbers(module)
        self._hooks[module] = newest, found
        return found

    def _compiled_for(self, hooks: tuple[int, ...]) -> Call:
        if hooks not in self._compiled:
            code = _own_code(f"{self._name}_{len(self._compiled)}")
            self._compiled[hooks] = self._torch.compile(code, dynamic=not self._static, **self._how)
        return self._compiled[hooks]

    def _worth_compiling(self, signature: tuple[object, ...]) -> bool:
        self._calls[signature] += 1
        if signature in self._taken or not self._taken or not (self._static or signature[-1]):
            return True
        seen = self._calls[signature]
        return seen >= _SEEN_BEFORE_COMPILING and _SHARE * seen >= self._calls.total()


def _own_code(name: str) -> Call:
    """A function that calls a module, with its own code object: torch's cache of compiled code, and the
    limit on recompiling, belong to a code object.
    """

    def call(module: Module, args: Args, kwargs: Kwargs) -> object:
        return plain_call(module)(*args, **kwargs)

    ours: Any = types.FunctionType(call.__code__.replace(co_name=name), call.__globals__, name)
    ours.by_hasten = True  # for ``uses``
    made: Call = ours
    return made


def _shapes(torch: ModuleType, inputs: object) -> tuple[object, ...]:
    found = leaves(torch, inputs)
    tensors = [leaf for leaf in found if torch.is_tensor(leaf)]
    return tuple((tuple(tensor.shape), tensor.dtype, tensor.requires_grad) for tensor in tensors)


class BlockSlot(CallSlot):
    """Sits in a block's ``compiled_call``."""

    def __init__(self, block: Module, around: Callable[[Module, Args, Kwargs], object]) -> None:
        super().__init__(block)
        self._around = around

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = self.clone()
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        block = self.module()
        assert block is not None
        return self._around(block, args, kwargs)


def keep_compiled_code() -> Callable[[], None]:
    """Let inductor keep compiled code where later processes find it; returns the undo.

    Not below the script's folders, where nothing that a trial writes stays, and not in /tmp, which does not
    survive a restart. A folder named by the user or the script takes precedence; torch's own name for the
    usual one is replaced.
    """
    before = os.environ.get(_CACHE_VARIABLE)
    if before not in (None, usual_cache_folder()):
        return lambda: None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(base, "hasten", "inductor")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return lambda: None
    if not os.access(folder, os.W_OK):
        return lambda: None
    os.environ[_CACHE_VARIABLE] = folder

    def undo() -> None:
        if os.environ.get(_CACHE_VARIABLE) != folder:
            return
        if before is None:
            del os.environ[_CACHE_VARIABLE]
        else:
            os.environ[_CACHE_VARIABLE] = before

    return undo
