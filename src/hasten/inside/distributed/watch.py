"""Checks that the ranks stay one model: what must be equal in all of them is compared as they train.

Fingerprints are part of the message that ends each backward pass. Learning rates are compared in every pass;
what takes longer to read, every so many passes, to cost less than 1% of the time. The ranks agree on the
number from what each has measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch

from ..job import Hosts
from .communication import Communication
from .own_time import OwnTime
from .watched import FULL, KINDS, LIGHT, RATES, SAMPLE, Watched, fingerprint

SHARE = 0.001  # of the time, for each of the two comparisons that are not made in each pass
_MOST = 4096  # passes between two
_NAMED = 3  # differences that are reported
# How far a parameter may be from rank 0's by rounding: sums in another order, as threads and memory lie.
_ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5}
_ROUNDING_OTHERWISE = 1e-2


class Watch:
    """``told`` and ``heard`` are called before and after the message of each backward pass."""

    def __init__(self, watched: Watched, communication: Communication, hosts: Hosts | None = None) -> None:
        self._watched, self._communication = watched, communication
        self.own_time = OwnTime(communication.rank, communication.size, hosts)
        self._clocks = {LIGHT: _Clock(), FULL: _Clock()}
        self._now: list[str] = []  # kinds that this pass's message compares
        self._last_equal: dict[str, int] = {}  # kind -> step at which it was compared last, and was equal
        self._began = 0.0
        self._pass_seconds = math.inf
        self.aligned = 0  # how often ranks differed by rounding, and took rank 0's values

    def told(self) -> tuple[list[int], list[float]]:
        """A fingerprint for each kind, 0 if it is not compared now, and numbers to sum over the ranks, for
        ``heard``.
        """
        began = time.perf_counter()
        if self._began:
            self._pass_seconds = _shorter(self._pass_seconds, began - self._began)
        self._began = began
        self._now = [RATES]
        prints = [0] * len(KINDS)
        prints[0] = fingerprint(self._watched.learning_rates())
        for kinds, clock in self._clocks.items():
            if clock.is_due():
                self._now += kinds
                began = time.perf_counter()
                for kind in kinds:
                    prints[KINDS.index(kind)] = self._fingerprint(kind)
                clock.took(time.perf_counter() - began, self._pass_seconds)
        return prints, [*(clock.wish for clock in self._clocks.values()), *self.own_time.told()]

    def heard(self, unequal: Sequence[int], sums: Sequence[float], step: int) -> str:
        """What differs, in words; "" if nothing does. ``unequal``: the places of differing fingerprints;
        ``sums``: of what ``told`` returned; ``step``: the number of steps that have ended.
        """
        wishes, own = sums[: len(self._clocks)], sums[len(self._clocks) :]
        self.own_time.heard(own, step)
        for clock, wish in zip(self._clocks.values(), wishes, strict=True):
            clock.agreed(math.ceil(wish / self._communication.size))
        apart = [KINDS[place] for place in unequal]
        why = self._explain(apart, step) if apart else ""
        for kind in self._now:
            self._last_equal[kind] = step
        return why

    def compare_all(self, step: int) -> str:
        """As ``heard``, at the end of the training; all ranks call it."""
        prints = torch.tensor([self._fingerprint(kind) for kind in KINDS])
        all_prints = self._communication.gathered(prints)
        apart = [
            kind for place, kind in enumerate(KINDS) if bool((all_prints[:, place] != prints[place]).any())
        ]
        told = torch.tensor([float(kind in apart) for kind in KINDS], dtype=torch.float64)
        self._communication.sum(told)  # two ranks may be equal, and a third may differ
        return self._explain([kind for kind, many in zip(KINDS, told.tolist(), strict=True) if many], step)

    def _fingerprint(self, kind: str) -> int:
        return fingerprint([value for _, value in self._watched.numbers(kind)])

    # ---- what differs; all ranks ask for the same
    def _explain(self, kinds: Sequence[str], step: int) -> str:
        """What differs in the first kind that does: differences in the others follow from it."""
        for kind in kinds:
            found = self._differing("parameters" if kind == SAMPLE else kind, self._since(kind, step))
            if len(found) > _NAMED:
                found[_NAMED - 1] += f" (and {len(found) - _NAMED} more)"
            if found:
                return "; ".join(found[:_NAMED])
        return ""

    def _differing(self, kind: str, since: str) -> list[str]:
        numbers = self._watched.numbers(kind)
        counts = self._communication.gathered(torch.tensor([len(numbers)])).view(-1).tolist()
        if len(set(counts)) > 1:
            other = next(rank for rank, count in enumerate(counts) if count != counts[0])
            return [
                f"ranks 0 and {other} have different {kind} ({counts[0]} and {counts[other]} of them){since}"
            ]
        tensors = self._watched.tensors(kind)
        if tensors and self._align(tensors):
            return []
        own = torch.tensor([value for _, value in numbers], dtype=torch.float64)
        rows = self._communication.gathered(own).tolist()
        return [
            _words(name, values, bool(tensors) or kind == "RNG states") + since
            for (name, _), values in zip(numbers, zip(*rows, strict=True), strict=True)
            if any(value != values[0] for value in values)
        ] or [f"the {kind} differ between ranks{since}"]

    def _since(self, kind: str, step: int) -> str:
        last = self._last_equal.get(kind)
        return f" at step {step + 1}" + ("" if last is None else f", equal until step {last + 1}")

    def _align(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> bool:
        """Where all ranks equal rank 0 up to rounding, copy rank 0's values; whether that was so."""
        fits = True
        with torch.no_grad():
            firsts = []
            for _, tensor in tensors:
                first = self._communication.gathered(tensor.detach().cpu().contiguous())[0]
                firsts.append(first)
                fits = fits and _is_rounding(first, tensor.detach().cpu())
            told = torch.tensor([float(fits)], dtype=torch.float64)
            self._communication.sum(told)
            if told.item() < self._communication.size:
                return False
            for (_, tensor), first in zip(tensors, firsts, strict=True):
                tensor.data.copy_(first)
        self.aligned += 1
        return True


class _Clock:
    """When a comparison is due: in the first passes, then as rarely as its cost requires."""

    def __init__(self) -> None:
        self._left, self._every = 0, 1
        self._seconds = 0.0
        self.wish = 1.0  # passes between two comparisons, by this rank's measurement

    def is_due(self) -> bool:
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = self._every - 1
        return True

    def took(self, seconds: float, pass_seconds: float) -> None:
        self._seconds = seconds if not self._seconds else 0.7 * self._seconds + 0.3 * seconds
        if math.isfinite(pass_seconds):
            affordable = SHARE * max(pass_seconds, 1e-9)
            self.wish = float(min(_MOST, max(1, math.ceil(self._seconds / affordable))))

    def agreed(self, every: int) -> None:
        if every != self._every:
            self._every, self._left = every, min(self._left, every - 1)


def _shorter(usual: float, seconds: float) -> float:
    """What a pass usually takes; an evaluation between two passes hardly changes it."""
    return min(seconds, 0.9 * usual + 0.1 * seconds) if math.isfinite(usual) else seconds


def _is_rounding(first: torch.Tensor, mine: torch.Tensor) -> bool:
    if not mine.is_floating_point():
        return bool(torch.equal(first, mine))
    largest = float(first.abs().max()) if first.numel() else 0.0
    apart = float((first - mine).abs().max()) if first.numel() else 0.0
    return apart <= _ROUNDING.get(mine.dtype, _ROUNDING_OTHERWISE) * largest


def _words(name: str, values: Sequence[float], only_name: bool) -> str:
    other = next(rank for rank, value in enumerate(values) if value != values[0])
    if only_name:
        return f"{name} differs between ranks 0 and {other}"
    return f"{name} is {values[0]:.6g} in rank 0 and {values[other]:.6g} in rank {other}"
