"""The forward pass in float16 by autocast, with the loss scaled so that small gradients do not vanish.

It helps on GPUs that are fast in float16 and not in bfloat16 (before Ampere, many consumer cards), and if
bfloat16's 8 bits of mantissa are too few. It hurts if activations exceed float16's range of 65504, and steps
whose gradients overflow are skipped; on a CPU it is slower than float32 without instructions for it.

Parameters, gradients and optimizer state stay in float32. See ``loss_scale`` for where the scale goes.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.observation import STEPS_IN_BACKWARD
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import NotApplicable, Training
from .base import Technique, conflicting
from .support.loss_scale import LossScaling, Scale
from .support.lowering import LoweredForward, refuse_autocast

_CPU_FLAGS = {"avx512_fp16", "amx_fp16"}


class Fp16(Technique):
    name = "fp16"
    summary = "forward pass under float16 autocast, with a scaled loss"
    layer = "application"
    risk = "close"
    scope = "live"
    conflicts = conflicting(
        bf16="a forward pass has one lower precision",
        optimizer_in_backward="gradients are still scaled while the backward pass runs",
    )
    precision = "float16"

    def __init__(self) -> None:
        self._forward: LoweredForward | None = None
        self._scaling: LossScaling | None = None

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        lacks = "this CPU has no float16 arithmetic (avx512_fp16, amx_fp16): emulated, it is slower"
        reasons = refuse_autocast(facts, _CPU_FLAGS, lacks)
        if "GradScaler" in facts.observation.uses:
            reasons.append("the script already uses GradScaler")
        if STEPS_IN_BACKWARD in facts.observation.uses:
            reasons.append("its optimizers step within the backward pass, while gradients are still scaled")
        if facts.observation.steps_are_evaluations:
            reasons.append("an update evaluates its closure many times, and would see overflowed gradients")
        if not facts.observation.optimizers:
            reasons.append("the script has no torch optimizer, whose overflowing steps could be skipped")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if training.roots and not training.optimizers:
            raise NotApplicable("the script has no torch optimizer")
        self._scaling = LossScaling(training, training.kept.setdefault(self.name, Scale()))
        self._scaling.install()

        self._forward = LoweredForward(torch, torch.float16)
        self._forward.install(training, self.name)

    def remove(self, training: Training) -> None:
        if self._forward is not None:
            self._forward.remove(training, self.name)
        if self._scaling is not None:
            self._scaling.remove()

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes under autocast and the backward passes of a scaled loss. Of what autograd
        keeps from the first, or else of what layers return in the second, a part must be in float16. Reports
        steps skipped because of an overflow.
        """
        scaling, forward = self._scaling, self._forward
        assert scaling is not None
        assert forward is not None
        evidence = (
            f"{forward.calls} forward passes under autocast, {scaling.backwards} backward passes scaled by "
            f"{scaling.scale.value:g} now; tensors in float16 in the first: {forward.lowered}"
        )
        evidence = "; ".join([evidence, *forward.left_alone, *filter(None, [scaling.left_alone])])
        effective = forward.calls > 0 and forward.lowered > 0 and scaling.backwards > 0
        skipped = f"{scaling.skipped} steps skipped, whose gradients overflowed" if scaling.skipped else ""
        return Proof(self.name, effective and not scaling.left_alone, evidence, skipped)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            'scaler = torch.amp.GradScaler("cuda")\n'
            'with torch.autocast("cuda", dtype=torch.float16):\n'
            "    output = model(inputs)\n"
            "loss = criterion(output.float(), targets)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.unscale_(optimizer)    # before clipping\n"
            "scaler.step(optimizer)\n"
            "scaler.update()"
        )
