"""Where a course is followed: torch's functions that train, that fetch values, and Python's clocks."""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from ..internals.compiler import left_alone
from ..internals.loaders import NEXT_INDEX, iterator_kind
from ..internals.other_functions import is_transformed
from ..observing.slot import has_slot
from ..package import INSIDE
from ..training import Training
from .cannot import Cannot
from .course import Course
from .frames import is_below
from .muted_output import by_machinery

if TYPE_CHECKING:
    from ..seams import Call, Seams

_FETCHING = ("item", "__bool__", "__float__", "__int__", "__index__", "tolist", "numpy", "__repr__")
_OPTIMIZERS = os.path.join("torch", "optim")
_COMPARING = ("equal", "allclose")
_TRANSFORMED = (
    "a model is called under a transform of torch.func, such as vmap, which nothing can be played back into"
)
_STEPS_IN_BACKWARD = "optimizers step within the backward pass, which is played back without computing"
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class SeamsOfCourse:
    """``cannot`` is told what the course cannot be followed through, before it is gone through."""

    def __init__(self, course: Course, seams: Seams, cannot: Callable[[Cannot], None]) -> None:
        self._course, self._seams, self._cannot = course, seams, cannot
        self._in_backward = False
        self._known, self._models = WeakSet[Any](), list[ref[Any]]()
        self._at_work: list[tuple[int, bool]] = []  # optimizers in their step, and whether it is one piece

    def install(self, torch: ModuleType, optimizers: list[ref[Any]], models: list[ref[Any]]) -> None:
        """Optimizers that were made, and models that were called, are added to the lists."""
        replace = self._seams.replace
        for name in (*_FETCHING, *_COMPARING):
            replace(torch.Tensor, name, partial(self._fetch, name))
        for name in (*_COMPARING, "is_nonzero"):
            replace(torch, name, partial(self._fetch, name))
        self._models = models
        replace(torch.nn.Module, "__call__", self._forward)
        replace(torch.Tensor, "backward", self._backward)
        replace(torch.autograd, "backward", self._backward)
        replace(torch.autograd, "grad", self._gradients)
        replace(iterator_kind(), "__next__", self._next)
        replace(iterator_kind(), NEXT_INDEX, self._drawing)
        self._optimizers(torch, optimizers)

    def join(self, training: Training) -> None:
        """Of a run under a plan: what techniques do in a root's pass is part of that, and their set-up is of
        no interest.
        """
        training.follow, training.aside = partial(self._follow_root, training), lambda: self._course

    def install_clocks(self, is_own: Callable[[str], bool], skips_sleep: Callable[[], bool]) -> None:
        """Before the script begins. ``is_own``: whether a file's calls are followed."""
        for name in (*_CLOCKS, *(f"{name}_ns" for name in _CLOCKS)):
            self._seams.replace(time, name, lambda original: _Clock(original, self._course, is_own))

        def sleeping(original: Call) -> Call:
            return lambda seconds: None if skips_sleep() else original(seconds)

        self._seams.replace(time, "sleep", sleeping)

    def install_temporary_folders(self) -> None:
        """They get the names that they had."""
        course = self._course

        def made(original: Call) -> Call:
            def mkdtemp(*given: Any, **more: Any) -> Any:
                if course.deaf() or by_machinery(sys._getframe(1), ("tempfile.py",)):
                    return original(*given, **more)
                return course.mode.temporary_folder(lambda: original(*given, **more))

            return mkdtemp

        self._seams.replace(tempfile, "mkdtemp", made)

    def _fetch(self, name: str, original: Call) -> Call:
        course = self._course

        def fetch(*given: Any, **more: Any) -> Any:
            if course.deaf() or _by_others(sys._getframe(1), bool(self._at_work)):
                return original(*given, **more)
            return course.mode.fetch(original, name, given, more)

        return left_alone(fetch)  # compiled code fetches its own values by some of them

    def _forward(self, original: Call) -> Call:
        course, follow = self._course, self.follow

        # torch's profiler reads ``self`` from this function's frames
        def __call__(self: Any, *given: Any, **more: Any) -> Any:
            if course.deaf() or next(self.parameters(), None) is None:
                return original(self, *given, **more)
            if has_slot(self):  # it has ``follow`` called
                return original(self, *given, **more)
            return follow(self, partial(original, self), given, more)

        return __call__

    def _follow_root(self, training: Training, root: Any, call: Call, given: Any, more: Any) -> Any:
        if training.this_rank is not None and training.plays_back():
            training.this_rank.pass_played(root, given, more)
        return self.follow(root, call, given, more)

    def follow(self, module: Any, call: Call, given: Any, more: Any) -> Any:
        """``call`` is the module's whole forward pass."""
        course = self._course
        if course.deaf():
            return call(*given, **more)
        if course.torch is not None and is_transformed(course.torch):
            self._cannot(Cannot(_TRANSFORMED))
            return call(*given, **more)
        if module not in self._known:
            self._known.add(module)
            self._models.append(ref(module))
        return course.mode.forward(call, module, given, more)

    def _backward(self, original: Call) -> Call:
        course = self._course

        def backward(*given: Any, **more: Any) -> Any:
            if course.deaf():
                return original(*given, **more)
            self._in_backward = True
            try:
                return course.mode.backward(original, given, more)
            finally:
                self._in_backward = False

        return backward

    def _gradients(self, original: Call) -> Call:
        course = self._course

        def grad(*given: Any, **more: Any) -> Any:
            if course.deaf():
                return original(*given, **more)
            return course.mode.gradients(original, given, more)

        return grad

    def _next(self, original: Call) -> Call:
        course = self._course

        def __next__(self: Any) -> Any:
            if course.deaf():
                return original(self)
            course.mode.batch_asked()
            with course:
                return original(self)

        return __next__

    def _drawing(self, original: Call) -> Call:
        """A sampler may go by tensors that are not put back yet."""
        course = self._course

        def next_index(iterator: Any) -> Any:
            index = original(iterator)
            if not course.elsewhere():
                course.drawn = zlib.crc32(_bytes_of(index), course.drawn)
            return index

        return next_index

    def _optimizers(self, torch: ModuleType, made: list[ref[Any]]) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        course, at_work = self._course, self._at_work

        def initialised(original: Call) -> Call:
            def __init__(optimizer: Any, *given: Any, **more: Any) -> None:
                original(optimizer, *given, **more)
                made.append(ref(optimizer))

            return __init__

        def begins(optimizer: Any, given: Any, more: Any) -> None:
            if course.deaf() and not at_work:
                if self._in_backward and not course.elsewhere():
                    self._cannot(Cannot(_STEPS_IN_BACKWARD))
                return
            if not at_work:
                course.mode.step_begins(optimizer)
            closure = given[1] if len(given) > 1 else more.get("closure")
            whole = bool(at_work) or closure is None
            at_work.append((id(optimizer), whole))
            course.depth += whole

        def ends(optimizer: Any, given: Any, more: Any) -> None:
            if not at_work or at_work[-1][0] != id(optimizer):
                return
            course.depth -= at_work.pop()[1]
            if not at_work:
                course.mode.step_ends(optimizer)

        self._seams.replace(torch.optim.Optimizer, "__init__", initialised)
        self._seams.on_undo(register_optimizer_step_pre_hook(begins).remove)
        self._seams.on_undo(register_optimizer_step_post_hook(ends).remove)


def _bytes_of(index: Any) -> bytes:
    """Of what a dataset is asked for. Of one that is iterated over, workers ask in any number."""
    if index is None or (isinstance(index, list) and index[:1] == [None]):
        return b""
    try:
        return marshal.dumps(index, 2)
    except ValueError:  # such as tensors
        return repr(index).encode()


def _by_others(frame: FrameType, at_work: bool) -> bool:
    """By what watches a run under a plan, or by an optimizer for itself."""
    return is_below(frame.f_code.co_filename, INSIDE) or (at_work and _by_an_optimizer(frame))


def _by_an_optimizer(frame: FrameType) -> bool:
    """For itself, beside the closure that it was given. LBFGS goes by what its closure returns."""
    path = frame.f_code.co_filename
    return path.rpartition(os.sep)[0].endswith(_OPTIMIZERS) and not path.endswith("lbfgs.py")


class _Clock:
    """Not a function, which would become a method as a class attribute; a builtin does not, either."""

    def __init__(self, original: Call, course: Course, is_own: Callable[[str], bool]) -> None:
        self._original, self._course, self._is_own = original, course, is_own

    def __call__(self) -> Any:
        course = self._course
        if course.deaf() or not self._is_own(sys._getframe(1).f_code.co_filename):
            return self._original()
        return course.mode.clock(self._original)
