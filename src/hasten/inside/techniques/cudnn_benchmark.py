"""cuDNN times its convolution algorithms once for each shape, and takes the fastest.

It helps convolutional networks with inputs of few shapes. It hurts where shapes keep changing: each new one
is timed again, and the algorithms it takes may want more memory.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from typing import Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Call, NotApplicable, Training
from .base import Technique
from .support.products import device_of


class CudnnBenchmark(Technique):
    name = "cudnn_benchmark"
    summary = "cuDNN chooses convolution algorithms by timing them"
    layer = "application"
    risk = "exact"
    scope = "live"
    devices = frozenset({"cuda"})

    def __init__(self) -> None:
        self._installed = False
        self._calls = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.accelerators else ["this machine has no NVIDIA GPU"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not reasons and facts.devices != {"cuda"}:
            reasons.append("the training is not on a CUDA GPU")
        if not any(root.convolutions for root in facts.observation.roots):
            reasons.append("the model has no 2-d convolutions")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        cudnn = training.torch.backends.cudnn
        device = device_of(training)
        if device is not None and device.type != "cuda":
            raise NotApplicable(f"the training is on {device}, and cuDNN is for CUDA")
        if cudnn.benchmark:
            raise NotApplicable("the script sets torch.backends.cudnn.benchmark itself")
        if cudnn.deterministic:
            raise NotApplicable("the script asks for deterministic algorithms")
        cudnn.benchmark = self._installed = True

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._calls += bool(cudnn.benchmark and cudnn.enabled and cudnn.is_available())
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        if self._installed:
            training.torch.backends.cudnn.benchmark = self._installed = False

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes during which cuDNN chose its kernels by timing them."""
        evidence = f"{self._calls} forward passes with cuDNN's choice by timing"
        return Proof(self.name, self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "torch.backends.cudnn.benchmark = True"
