"""Treat numbers below 1.2e-38 as zero, because some processors compute with them many times slower.

It helps where an optimizer's averages of gradients decay towards zero, which takes hundreds of steps: weights
of units that stay silent, rows of rare words in an embedding. A textbook CNN with Adam took 8.5 ms a step on
an Intel Xeon, and 17.5 ms from its 760th step on: 60% of its averages were so small by then. Sparse inputs,
saturated or pruned networks and recurrences make such numbers, too. It does nothing if none come up, or on a
processor that computes with them as fast as with others, as AMD's do. It hurts where a script divides by
something that small, like Adam with eps=0; therefore its risk is ``close`` although float32 is kept: not only
rounding differs.

A tune counts the gradients that are zero and times a product with such a number. Where that could cost 2% of
a step, it trains on until averages can be so small, and compares then.

The setting belongs to a thread: it is made in each of torch's threads, and those that start later inherit it.

Source: https://docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..observing.tiny_numbers import MAGNITUDE, PRODUCTS, SMALLEST, steps_until_tiny, tiny_averages
from ..process.torch_threads import NoThreads, TorchThreads
from ..training import NotApplicable, Training
from .base import Technique

if TYPE_CHECKING:
    from torch import Tensor

_ELEMENTS = 2**18  # enough for torch to share them among its threads
_LEAST_SHARE = 0.02  # of a step
_STAYS = 1000  # steps with it, after which it is not switched off any more
_LEAST_SECONDS = 3e-10  # longer for a product: seen, 4.6e-9 on an Intel Xeon


class Denormals(Technique):
    name = "denormals"
    summary = "numbers too small for full precision are taken for zero"
    layer = "environment"
    risk = "close"
    scope = "live"
    devices = frozenset({"cpu"})
    slow_to_show = True
    restarts = True

    def __init__(self) -> None:
        self._threads: TorchThreads | None = None
        self._lost: list[tuple[weakref.ref[Tensor], Tensor, Tensor]] = []  # where in it, and what was there
        self._had = self._steps = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.architecture in ("x86_64", "AMD64", "aarch64", "arm64"):
            return []
        return [f"torch cannot set it on {machine.architecture}"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        if "set_flush_denormal" in facts.observation.uses:
            reasons.append("the script calls torch.set_flush_denormal itself, and that stands")
        seconds = facts.observation.tiny_seconds
        if facts.on_cpu and seconds is not None and seconds < _LEAST_SECONDS:
            reasons.append("this processor computes with such numbers as fast as with others")
        return reasons

    @classmethod
    def shows_after(cls, facts: Facts) -> int:
        """Where they come up in averages; what else makes such numbers does so from the start."""
        seen = facts.observation
        usual = [step.seconds for step in seen.steps]
        if not usual:
            return 0
        least = _LEAST_SHARE * min(usual) * seen.threads / (PRODUCTS * (seen.tiny_seconds or _LEAST_SECONDS))
        own = Counter(step.signature[0] for step in seen.steps)  # several optimizers may take turns
        times = [len(seen.steps) / (own[number] or len(seen.steps)) for number in range(len(seen.optimizers))]
        after = [
            math.ceil(each * steps_until_tiny(one.kept))
            for one, each in zip(seen.optimizers, times, strict=True)
            if one.silent > least
        ]
        return max(after, default=0)

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        divisors = [group.get("eps", 1.0) for one in training.optimizers for group in one.param_groups]
        if any(isinstance(eps, float) and eps < SMALLEST for eps in divisors):
            raise NotApplicable(
                "an optimizer divides by numbers that would become zero: its eps is too small"
            )
        try:
            self._threads = TorchThreads(torch)
        except NoThreads as error:
            raise NotApplicable(str(error)) from None
        for tensor, numbers, places in tiny_averages(torch, training.optimizers):
            self._lost.append((weakref.ref(tensor), places, numbers[places]))
            self._had += self._lost[-1][-1].numel()
        self._threads.each(lambda: torch.set_flush_denormal(True))
        if self._kept(training):
            self.remove(training)
            raise NotApplicable("torch computes in threads in which it cannot be set")
        training.after_steps[self.name] = self._step_ended

    def _step_ended(self) -> None:
        self._steps += 1
        if self._steps == _STAYS:
            self._lost.clear()

    def remove(self, training: Training) -> None:
        """Averages that were taken for zero are as they were: plain steps must be as slow as before."""
        training.after_steps.pop(self.name, None)
        torch = training.torch
        if self._threads is not None:
            self._threads.each(lambda: torch.set_flush_denormal(False))
        for ref, places, before in self._lost:
            tensor = ref()
            if tensor is not None:
                numbers = tensor.detach().view(torch.int32)
                now = numbers[places]
                numbers[places] = torch.where((now & MAGNITUDE) == 0, before, now)
        self._lost.clear()

    def _kept(self, training: Training) -> int:
        torch = training.torch
        smallest = torch.ones(_ELEMENTS, dtype=torch.int32, device="cpu").view(torch.float32)
        return int((smallest * 2).view(torch.int32).count_nonzero())

    def proof(self, training: Training) -> Proof:
        """Double the smallest number there is, in all of torch's threads: only zeros may come out."""
        kept, threads = self._kept(training), training.torch.get_num_threads()
        evidence = (
            f"{self._steps} steps; {kept} of {_ELEMENTS} numbers below 1.2e-38 stay, computed by {threads} "
            "threads"
        )
        remark = f"{self._had:,} averages of gradients had fallen below 1.2e-38" if self._had else ""
        return Proof(self.name, kept == 0 and self._steps > 0, evidence, remark)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "torch.set_flush_denormal(True)    # right after import torch"
