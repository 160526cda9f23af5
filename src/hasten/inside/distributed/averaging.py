"""Sums the gradient of a backward pass over the ranks, with their weights, while the pass still runs.

What ``.grad`` held before is set aside and added at the end: a gradient accumulated over several passes would
otherwise be reduced again with each. All ranks issue the same collectives in the same order, whatever each
one's pass does: which buckets are reduced during it was agreed on after an earlier pass of the same kind; at
the end the ranks tell each other which parameters got a gradient, and the rest is reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ..internals.other_functions import add_each, copy_each
from .buckets import Buckets, identity_of
from .communication import Communication

_CHECKS = 2  # entries of the message that compare one fingerprint over all ranks
_LATE = float(2**20)  # instead of 1 for a late parameter: more than there are ranks
_FINGERPRINT = 2**22  # squares of such numbers, summed over ranks, are exact in float64


class OutOfStep(RuntimeError):
    """The ranks do not do the same, so their common result would be meaningless."""


class Averaging:
    """``begin`` before and ``end`` after each backward pass, with the same ``kind`` in all ranks."""

    def __init__(
        self, communication: Communication, parameters: Callable[[], Sequence[torch.Tensor]]
    ) -> None:
        self._communication = communication
        self._find = parameters
        self._buckets = Buckets(())
        self._hooks: list[RemovableHandle] = []
        self._expected: dict[Hashable, list[int]] = {}  # kind -> buckets that all agreed to reduce meanwhile
        self._usual: dict[Hashable, dict[int, int]] = {}  # kind -> how often each parameter's hook came here
        self._running = False
        self.passes = 0
        self.got: list[int] = []  # parameters, by number, to which the last pass gave a gradient in any rank
        self.unequal: list[int] = []  # which of the last pass's ``watched`` are not the same in all ranks

    # ---- one backward pass
    def begin(self, kind: Hashable, weight: float) -> None:
        """``weight``: of this rank's gradient in the sum."""
        parameters = [p for p in self._find() if p.requires_grad]
        if identity_of(parameters) != self._buckets.identity:
            self._follow(parameters)
        self._kind, self._weight = kind, weight
        self._before = [p.grad for p in parameters]
        for parameter in parameters:
            parameter.grad = None
        self._came: dict[int, int] = {}
        self._filled: set[int] = set()
        self._late: set[int] = set()
        self._on_the_way = list(self._expected.get(kind, ()))
        usual = self._usual.get(kind, {})
        self._missing = {
            bucket: sum(1 for number in self._buckets.all[bucket].members if number in usual)
            for bucket in self._on_the_way
        }
        self._sent = 0  # of those to reduce during the pass
        self._running = True

    def end(self, fingerprint: int, values: Sequence[float] = (), watched: Sequence[int] = ()) -> list[float]:
        """Leave in every ``.grad`` its former value plus the weighted sum of what all ranks added.

        ``values`` are numbers, as many in each rank, whose sums over the ranks are returned. ``watched`` are
        fingerprints, as many in each rank: afterwards ``unequal`` holds the places of those that differ.
        Raises OutOfStep if ``fingerprint`` is not the same in all ranks.
        """
        self._running = False
        with torch.no_grad():
            for position in range(self._sent, len(self._on_the_way)):
                self._communication.follow(self._complete(self._on_the_way[position]))
            told, late, sums = self._tell([fingerprint, *watched], values)
            self.got = told
            rest = sorted({self._buckets.bucket_of[number] for number in told} - set(self._on_the_way))
            for bucket in rest:
                self._communication.follow(self._complete(bucket))
            self._communication.wait()
            for number in late:
                self._send_late(number)
            self._deliver(set(told))
        self._expected[self._kind] = sorted({self._buckets.bucket_of[number] for number in told})
        usual = self._usual.setdefault(self._kind, {})
        for number, times in self._came.items():
            usual[number] = max(times, usual.get(number, 0))
        self.passes += 1
        return sums

    def added(self) -> dict[int, torch.Tensor]:
        """What the pass added in this rank, by parameter number; call it before ``end``."""
        parameters = self._buckets.parameters
        return {number: grad for number in self._came if (grad := parameters[number].grad) is not None}

    @property
    def parameters(self) -> list[torch.Tensor]:
        """The parameters that the last pass could give a gradient to."""
        return self._buckets.parameters

    def give_up(self) -> None:
        """The pass failed: put back what ``.grad`` held before, plus what the pass added so far."""
        self._running = False
        for parameter, before in zip(self._buckets.parameters, self._before, strict=True):
            if before is not None:
                added = parameter.grad
                parameter.grad = before
                if added is not None:
                    before.add_(added)

    # ---- as gradients come
    def _follow(self, parameters: list[torch.Tensor]) -> None:
        for hook in self._hooks:
            hook.remove()
        self._buckets = Buckets(parameters)
        self._expected.clear()
        self._usual.clear()
        untyped: list[Any] = list(parameters)  # as torch leaves the method for hooks
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._hook(number))
            for number, parameter in enumerate(untyped)
        ]

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        def came(parameter: torch.Tensor) -> None:
            if not self._running:
                return
            times = self._came[number] = self._came.get(number, 0) + 1
            bucket = self._buckets.bucket_of[number]
            if bucket not in self._missing or times != self._usual[self._kind].get(number):
                if bucket in self._on_the_way[: self._sent]:
                    self._came_late(number)
                return
            self._fill(number, parameter)
            self._missing[bucket] -= 1
            last = len(self._on_the_way) - 1  # the pass ends with it: nothing is left to do meanwhile
            while self._sent < last and not self._missing[self._on_the_way[self._sent]]:
                self._communication.begin(self._complete(self._on_the_way[self._sent]))
                self._sent += 1

        return came

    def _came_late(self, number: int) -> None:
        """A gradient came after its bucket was sent: in earlier passes of this kind there was none."""
        if number in self._filled:
            raise OutOfStep("a gradient was added to after it had been sent")
        self._late.add(number)

    def _fill(self, number: int, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        if gradient.layout != torch.strided:
            raise OutOfStep(f"a gradient is {gradient.layout}: only dense ones can be averaged")
        with torch.no_grad():
            torch.mul(gradient, self._weight, out=self._buckets.view_of[number])
        self._filled.add(number)

    def _complete(self, number: int) -> torch.Tensor:
        """A bucket's flat tensor, ready to be sent."""
        bucket = self._buckets.all[number]
        for member, view in zip(bucket.members, bucket.views, strict=True):
            if member in self._filled:
                continue
            if member in self._came:
                self._fill(member, self._buckets.parameters[member])
            else:
                view.zero_()
        return bucket.flat

    def _send_late(self, number: int) -> None:
        """Sum the ranks' parts of it that came after its bucket was sent. All ranks take part, at the very
        end.
        """
        parameter, view = self._buckets.parameters[number], self._buckets.view_of[number]
        added = torch.zeros_like(view)
        if number in self._late and parameter.grad is not None:
            torch.mul(parameter.grad, self._weight, out=added)
        self._communication.sum(added)
        view.add_(added)

    # ---- at the end
    def _tell(
        self, fingerprints: Sequence[int], values: Sequence[float]
    ) -> tuple[list[int], list[int], list[float]]:
        """The numbers of parameters that got a gradient anywhere, of those that came late anywhere, and the
        sums of ``values``.
        """
        count = len(self._buckets.parameters)
        start = count + _CHECKS * len(fingerprints)  # of values
        told = torch.zeros(start + len(values), dtype=torch.float64)
        if self._came:
            told[list(self._came)] = 1.0
        if self._late:
            told[list(self._late)] = _LATE
        short = [fingerprint % _FINGERPRINT for fingerprint in fingerprints]
        told[count:] = torch.tensor(
            [*(entry for one in short for entry in (one, one * one)), *values], dtype=torch.float64
        )
        self._communication.sum(told)
        numbers = told.tolist()
        size = self._communication.size
        unequal = [
            place
            for place in range(len(fingerprints))
            if int(numbers[count + _CHECKS * place]) ** 2 != size * int(numbers[count + _CHECKS * place + 1])
        ]
        if 0 in unequal:
            raise OutOfStep(
                "the ranks drew other batches, or computed other losses, from one and the same script"
            )
        self.unequal = [place - 1 for place in unequal]
        got = [number for number, ranks in enumerate(numbers[:count]) if ranks]
        late = [number for number in got if numbers[number] >= _LATE]
        return got, late, numbers[start:]

    def _deliver(self, told: set[int]) -> None:
        onto: list[torch.Tensor] = []
        onto_from: list[torch.Tensor] = []
        into: list[torch.Tensor] = []
        into_from: list[torch.Tensor] = []
        for number, (parameter, before) in enumerate(
            zip(self._buckets.parameters, self._before, strict=True)
        ):
            if number not in told:
                parameter.grad = before
                continue
            if before is not None:
                parameter.grad = before
                onto.append(before)
                onto_from.append(self._buckets.view_of[number])
            else:
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                into.append(parameter.grad)
                into_from.append(self._buckets.view_of[number])
        if onto:
            add_each(torch, onto, onto_from)
        if into:
            copy_each(torch, into, into_from)
