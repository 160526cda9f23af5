"""The forward pass in bfloat16 by autocast; its outputs return in float32, so the loss is as written.

In a step, so do the passes of networks that are not trained: a teacher's, or one's that the loss looks
through.

It helps if large products and convolutions take most of a step, on processors and GPUs with bfloat16
instructions. It hurts small layers, whose casts cost more than the products save; without the instructions it
is emulated, which is slow.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique
from .support.lowering import LoweredForward, refuse_bfloat16


class Bf16(Technique):
    name = "bf16"
    summary = "forward pass under bfloat16 autocast, outputs cast back to float32"
    layer = "application"
    risk = "close"
    scope = "live"
    restarts = True
    precision = "bfloat16"

    def __init__(self) -> None:
        self._forward: LoweredForward | None = None

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return refuse_bfloat16(facts)

    @classmethod
    def gains_with(cls, facts: Facts) -> frozenset[str]:
        """On a GPU each cast is a launch more, unless it is compiled: seen on an H200, where a small
        transformer was 0.85 times as fast. On a CPU convolutions gain little without channels_last: a small
        network 1.11 times on an Intel Xeon, and 1.39 times with it.
        """
        return frozenset({"compile", *(["channels_last"] if facts.on_cpu else [])})

    def install(self, training: Training, settings: Settings) -> None:
        self._forward = LoweredForward(training.torch, training.torch.bfloat16)
        self._forward.install(training, self.name)

    def remove(self, training: Training) -> None:
        if self._forward is not None:
            self._forward.remove(training, self.name)

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes under autocast. Of what autograd keeps from the first one of each module
        for its backward pass, or else of what its layers return in the second, a part must be in bfloat16.
        """
        assert self._forward is not None
        calls, lowered = self._forward.calls, self._forward.lowered
        evidence = f"{calls} forward passes under autocast; tensors in bfloat16 in the first: {lowered}"
        evidence = "; ".join([evidence, *self._forward.left_alone])
        return Proof(self.name, calls > 0 and lowered > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "with torch.autocast(device_type, dtype=torch.bfloat16):\n"
            "    output = model(inputs)\n"
            "loss = criterion(output.float(), targets)"
        )
