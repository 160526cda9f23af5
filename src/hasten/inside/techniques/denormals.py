"""Treat numbers below 1.2e-38 as zero, because some processors compute with them many times slower.

It helps where gradients, activations or an optimizer's averages decay towards zero: sparse inputs,
saturated or pruned networks, recurrences. It does nothing if no such numbers come up. It hurts where a
script divides by something that small, like Adam with eps=0; therefore its risk is ``close`` although
float32 is kept: not only rounding differs.

The setting belongs to a thread, and new threads inherit it: it must be made before torch's threads start.

Source: https://docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique

_ELEMENTS = 2**18  # enough for torch to share them among its threads


class Denormals(Technique):
    name = "denormals"
    summary = "numbers too small for full precision are taken for zero"
    layer = "environment"
    risk = "close"
    scope = "process"
    restarts = True
    jointly = True

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
        return reasons

    def start(self, training: Training, settings: Settings) -> None:
        training.torch.set_flush_denormal(True)

    def proof(self, training: Training) -> Proof:
        """Double the smallest number there is, in all of torch's threads: only zeros may come out."""
        torch = training.torch
        smallest = torch.ones(_ELEMENTS, dtype=torch.int32).view(torch.float32)
        kept = int((smallest * 2).view(torch.int32).count_nonzero())
        threads = torch.get_num_threads()
        evidence = f"{kept} of {_ELEMENTS} numbers below 1.2e-38 stayed, computed by {threads} threads"
        return Proof(self.name, kept == 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "torch.set_flush_denormal(True)    # right after import torch"
