"""A script that is brought to the step where it stopped: its own code runs, its computing does not."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from . import script_journal
from .cannot import Diverged
from .course import Course
from .following import kept_of, loss_of
from .heap import text_of
from .large_values import Large, is_summed
from .of_ranks import Roles
from .played_steps import PlayedSteps
from .random_numbers import set_torch_state
from .script_journal import Reader
from .stand_ins import StandIns

_ROUNDING = 1e-5  # relative: what a GPU, or another number of threads, may do to a first loss


class Playing:
    """``land`` is called where the journal ends, at ``boundary``: "batch" or "step". ``fail``: with why the
    script cannot be brought there; it does not return.
    """

    def __init__(
        self,
        course: Callable[[], Course],
        reader: Reader,
        boundary: str,
        land: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._torch: ModuleType | None = None
        self._course_of, self._reader, self._boundary = course, reader, boundary
        self._land, self._fail = land, fail
        self._zeros: dict[int, tuple[Any, Any]] = {}
        self._began = False  # something was not computed
        self.steps = 0
        self.made_again: list[str] = []  # temporary folders
        self.clocks: dict[Any, Any] = {}
        self.optimizers: Callable[[], list[Any]] = list
        self.roles = Roles()

    @property
    def anchor(self) -> Any:
        return self._stand_ins.anchor

    def torch_came(self, torch: ModuleType) -> None:
        self._torch, self._course = torch, self._course_of()
        self._stand_ins, self._played_steps = StandIns(torch), PlayedSteps(torch)

    def forget(self) -> None:
        """All tensors of its own but one, which graphs from before lead to."""
        self._zeros.clear()
        self._stand_ins.forget()

    def _next(self, kind: bytes) -> Any:
        try:
            return self._reader.next(kind)
        except Exception as error:
            self._fail(error)

    def fetch(self, original: Any, name: str, given: Any, more: Any) -> Any:
        kept = self._next(script_journal.VALUE)
        if name == "numpy":
            return self._array(original, given, more, kept)
        if not self._began or is_summed(kept):
            with self._course:
                real = original(*given, **more)
            self._check(kept_of(name, real), kept)
            return real
        return complex(*kept) if name == "item" and isinstance(kept, list) else kept

    def _array(self, original: Any, given: Any, more: Any, kept: Any) -> Any:
        import numpy

        with self._course:
            array = original(*given, **more)
        if isinstance(kept, dict):
            self._check(kept_of("numpy", array), kept)
        elif len(kept) != array.nbytes:
            self._fail(
                Diverged(f"the script reads {array.nbytes:,} bytes of a tensor, and were {len(kept):,}")
            )
        elif array.tobytes() != kept:
            if not self._began:
                self._fail(_other_beginning("an array", "another"))
            values = numpy.frombuffer(kept, array.dtype).reshape(array.shape)
            with self._course:
                given[0].detach().copy_(self._of(values)) if array.flags.writeable else None
                array = array if array.flags.writeable else values.copy()
        return array

    def _of(self, values: Any) -> Any:
        assert self._torch is not None
        return self._torch.from_numpy(values.copy())

    def _check(self, real: object, kept: object) -> None:
        if isinstance(real, Large):
            real = real.as_kept(kept)
        if not same(real, kept):
            if self._began:
                self._fail(Diverged(f"the script reads more of a tensor than can be played back ({kept})"))
            self._fail(_other_beginning(text_of(real), text_of(kept)))

    def clock(self, original: Any) -> Any:
        value = self.clocks[original] = self._next(script_journal.CLOCK)
        return value

    def temporary_folder(self, make: Callable[[], Any]) -> Any:
        """The same, made again if the run that ended took it away."""
        path = self._next(script_journal.FOLDER)
        if not os.path.isdir(path):
            self.made_again.append(path)
        with self._course_of():
            os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def ahead(self) -> dict[Any, Any]:
        """By how much clocks that begin with the machine or the process are to be moved."""
        return {
            clock: last - clock()
            for clock, last in self.clocks.items()
            if not clock.__name__.startswith("time")
        }

    def forward(self, original: Any, module: Any, given: Any, more: Any) -> Any:
        state = self._next(script_journal.FORWARD)
        with self._course:
            result, computed = self._stand_ins.of(
                module, given, more, lambda: self._computed(original, module, given, more)
            )
            self._began = self._began or not computed
            if state is not None:
                assert self._torch is not None
                set_torch_state(self._torch, state)
        return result

    def _computed(self, original: Any, module: Any, given: Any, more: Any) -> Any:
        assert self._torch is not None
        with without_exchange(self._torch, module):
            return original(*given, **more)

    def backward(self, original: Any, given: Any, more: Any) -> Any:
        kept = self._next(script_journal.BACKWARD)
        with self._course:
            if kept is not None and not self._began:
                self._check(loss_of(given, more), kept)
            self._began = True
            original(*given, **more)  # no further than to what stands in: that frees what the script holds
            for optimizer in self.optimizers():
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        if parameter.grad is None and parameter.requires_grad:
                            parameter.grad = self._zero(parameter)

    def _zero(self, parameter: Any) -> Any:
        """Always the same for one parameter."""
        assert self._torch is not None
        kept = self._zeros.get(id(parameter))
        if kept is None or kept[0] is not parameter:
            kept = self._zeros[id(parameter)] = (
                parameter,
                self._torch.zeros_like(parameter, requires_grad=False),
            )
        return kept[1]

    def gradients(self, original: Any, given: Any, more: Any) -> Any:
        self._next(script_journal.GRADIENTS)
        self._began = True
        inputs = given[1] if len(given) > 1 else more["inputs"]
        with self._course:
            if not isinstance(inputs, (list, tuple)):
                inputs = (inputs,)
            self._free(original, given, more)
            return tuple(self._stand_ins.zeros_for(one) for one in inputs)

    def _free(self, original: Any, given: Any, more: Any) -> None:
        """What the script holds and has gone backward through: as far as to what stands in."""
        more = {**more, "allow_unused": True}
        if len(given) > 1:
            given = (given[0], (self.anchor,), *given[2:])
        else:
            more["inputs"] = (self.anchor,)
        with suppress(RuntimeError):  # nothing in it needs a gradient
            original(*given, **more)

    def step_begins(self, optimizer: Any) -> None:
        self._began = True
        self._played_steps.begin(optimizer)

    def step_ends(self, optimizer: Any) -> None:
        self._played_steps.end(optimizer)
        self._next(script_journal.STEP)
        self.steps += 1
        if self._reader.exhausted and self._boundary == "step":
            self._land()
        else:
            self._pass("step")

    def batch_asked(self) -> None:
        if self._reader.exhausted and self._boundary == "batch":
            self._land()
            self._course.mode.batch_asked()
        else:
            self._pass("batch")
            self._next(script_journal.BATCH)

    def _pass(self, boundary: str) -> None:
        try:
            self.roles.passed(self.steps, boundary)
        except Diverged as error:
            self._fail(error)


@contextmanager
def without_exchange(torch: ModuleType, module: Any) -> Iterator[None]:
    """DistributedDataParallel exchanges nothing with other ranks: they may not compute this pass."""
    exchanging = torch.nn.parallel.DistributedDataParallel
    if not (torch.distributed.is_available() and isinstance(module, exchanging)):
        yield
        return
    buffers = module.require_forward_param_sync
    module.require_forward_param_sync = False
    try:
        with module.no_sync():
            yield
    finally:
        module.require_forward_param_sync = buffers


def _other_beginning(real: str, kept: str) -> Diverged:
    return Diverged(
        f"the script begins otherwise: before its first step it read {kept} from a tensor, and now {real}; "
        "it draws from a source that no seed reaches, its data changed, or it goes on from a file of its own"
    )


def same(real: object, kept: object) -> bool:
    """Equal but for rounding."""
    if isinstance(real, float) and isinstance(kept, float):
        return math.isclose(real, kept, rel_tol=_ROUNDING, abs_tol=1e-12) or (
            math.isnan(real) and math.isnan(kept)
        )
    if isinstance(real, (list, tuple)) and isinstance(kept, list):
        return len(real) == len(kept) and all(map(same, real, kept))
    return real == kept
