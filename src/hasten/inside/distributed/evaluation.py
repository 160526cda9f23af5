"""Evaluation shared among ranks: each computes the outputs for its part of a batch, and all get all outputs.

That is for calls that all ranks make alike. A rank may also call a model with rows of its own: as a teacher,
for pseudo-labels, with noise. So before each call the ranks compare their inputs and the model's state; where
these differ, each computes its own. Between a batch and its backward pass nothing is shared or compared: a
call there is about a slice.

That outputs of a row do not depend on other rows is proved: every rank also computes the first call of a kind
whole, which must give the same and have no side effect. This is repeated at growing intervals.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import torch

from ..seams import Args, Call, Kwargs
from ..structures import map_tensors
from .asked import Asked, tensors_among
from .communication import Communication
from .fingerprint import StateDigest
from .losses import callers
from .outputs import Undisturbed, form_of, is_made_of_rows, is_same
from .slicing import Slice, slice_of

_LEAST_EACH = 4  # samples in a slice, to make sharing worth its communication
_GROWTH = 4  # calls are proved again when this many times as many were shared


@dataclass
class _Way:
    """What is known about one kind of call. ``shares``: computing it in parts was proven to give the same."""

    shares: bool = True
    shared: int = 0
    proved_at: int = 0  # the number shared at the last proof

    @property
    def is_due(self) -> bool:
        return self.shared >= max(1, self.proved_at) * _GROWTH


class SharedEvaluation:
    """``run`` replaces a root's forward pass, under no_grad, with the root in evaluation mode. ``in_step``:
    whether a slice is being trained on. ``fail`` ends the process, with the reason.
    """

    def __init__(
        self, communication: Communication, in_step: Callable[[], bool], fail: Callable[[str], NoReturn]
    ) -> None:
        self._communication, self._in_step, self._fail = communication, in_step, fail
        self._states: weakref.WeakKeyDictionary[torch.nn.Module, StateDigest] = weakref.WeakKeyDictionary()
        self._ways: dict[tuple[int, int], _Way] = {}  # by place in the script, and kind of call
        self._apart: set[int] = set()  # places whose calls differ between ranks; the same in all ranks
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # state read since training
        self.shared = 0  # passes

    def trained(self) -> None:
        """A training step came since the last call: what is known about the roots' state is out of date."""
        self._trained.clear()

    def run(self, root: torch.nn.Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        place = _place(root)
        if self._communication.size == 1 or self._in_step() or place in self._apart:
            return call(*args, **kwargs)
        state = self._states.setdefault(root, StateDigest())
        asked = Asked(state, root, root not in self._trained, args, kwargs)
        self._trained.add(root)
        told = self._told(place, asked.digest)
        if not asked.digest or any(one != told[0] for one in told):
            self._apart.update(one[0] for one in told)  # from all ranks: nothing is compared there any more
            return call(*args, **kwargs)
        way = self._ways.get((place, asked.kind))
        if asked.whole < _LEAST_EACH * self._communication.size or (way is not None and not way.shares):
            return call(*args, **kwargs)
        if way is None or way.is_due:
            return self._prove(root, call, asked, self._ways.setdefault((place, asked.kind), _Way()))
        way.shared += 1
        return self._share(call, asked, way)

    def _told(self, *numbers: int) -> list[list[int]]:
        """These numbers of each rank, a row each."""
        rows: list[list[int]] = self._communication.gathered(torch.tensor(numbers)).tolist()
        return rows

    def _all(self, held: bool) -> bool:
        return all(one == [1] for one in self._told(int(held)))

    def _part(self, whole: int) -> Slice:
        return slice_of(whole, self._communication.rank, self._communication.size)

    # ---- a call that all ranks compute, whole and in parts
    def _prove(self, root: torch.nn.Module, call: Call, asked: Asked, way: _Way) -> object:
        """The whole output. From now on calls of this kind are shared if their parts give the same."""
        watch = Undisturbed(root, asked.tensors)
        expected = call(*asked.args, **asked.kwargs)
        drew = watch.drew()
        rows = is_made_of_rows(expected, asked.whole, watch.memory)
        reason = self._why_not(call, asked, watch, expected, drew or not rows)
        way.proved_at = way.shared
        if reason and way.shared and not drew:
            self._fail(
                f"the outputs of {type(root).__name__} in evaluation {reason}, which the first of its "
                f"batches did not show: the {way.shared} that were shared since may be wrong"
            )
        way.shares = not reason
        return expected

    def _why_not(self, call: Call, asked: Asked, watch: Undisturbed, expected: object, out: bool) -> str:
        """Why its parts do not give the same; equal in all ranks. ``out``: it cannot be shared."""
        if not self._all(not out and watch.holds()):
            return "are not made of rows alone, or computing them leaves something behind"
        part = self._part(asked.whole)
        output, well = self._tried(call, asked, part)
        well = well and watch.holds()
        well = well and form_of(output, part.stop - part.start) == form_of(expected, asked.whole)
        if not self._all(well):
            return "are of another form for a part of a batch"
        if not self._all(is_same(self._gathered(output, asked.whole), expected)):
            return "depend on the other samples of a batch"
        return ""

    def _tried(self, call: Call, asked: Asked, part: Slice) -> tuple[object, bool]:
        """The output of a part, and whether it can be used: the model accepted this number of rows, and drew
        no random numbers.
        """
        args, kwargs = asked.cut(part.start, part.stop)
        watch = Undisturbed(None, tensors_among(args, kwargs))
        try:
            output = call(*args, **kwargs)
        except (
            Exception
        ):  # it may reject batches of this size; if the whole one fails too, it fails in all ranks
            watch.put_back()
            return None, False
        if watch.drew():
            watch.put_back()
            return output, False
        return output, watch.holds()

    # ---- a call of which each rank computes a part
    def _share(self, call: Call, asked: Asked, way: _Way) -> object:
        part = self._part(asked.whole)
        output, well = self._tried(call, asked, part)
        forms = self._told(form_of(output, part.stop - part.start) if well else 0)
        if [0] in forms or any(one != forms[0] for one in forms):
            way.shares = False
            return call(*asked.args, **asked.kwargs)
        self.shared += 1
        return self._gathered(output, asked.whole)

    def _gathered(self, output: object, whole: int) -> object:
        size = self._communication.size
        parts = [slice_of(whole, rank, size) for rank in range(size)]
        longest = max(part.stop - part.start for part in parts)

        def gather(tensor: torch.Tensor) -> torch.Tensor:
            padded = tensor
            if len(tensor) < longest:
                padded = tensor.new_zeros((longest, *tensor.shape[1:]))
                padded[: len(tensor)] = tensor
            rows = self._communication.gathered(padded.detach())
            return torch.cat([row[: part.stop - part.start] for row, part in zip(rows, parts, strict=True)])

        return map_tensors(torch, output, gather)


def _place(root: torch.nn.Module) -> int:
    """A number for the line, of the script or of its libraries, that makes the call."""
    line = next((f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in callers()), "")
    return zlib.crc32(f"{type(root).__qualname__} {line}".encode())
