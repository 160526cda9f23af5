"""cuDNN times its convolution algorithms once for each shape, and takes the fastest.

It helps convolutional networks with inputs of few shapes. It hurts if shapes keep changing: each new one is
timed again, and the chosen algorithms may need more memory.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.cuda_only import device_for, refuse_elsewhere, refuse_without_gpu

if TYPE_CHECKING:
    from torch.nn import Module


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
        return refuse_without_gpu(machine)

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine) or refuse_elsewhere(facts)
        if not any(root.convolutions for root in facts.observation.roots):
            reasons.append("the model has no 2-d convolutions")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        cudnn = training.torch.backends.cudnn
        device_for(training, "cuDNN")
        if cudnn.benchmark:
            raise NotApplicable("the script sets torch.backends.cudnn.benchmark itself")
        if cudnn.deterministic:
            raise NotApplicable("the script asks for deterministic algorithms")
        cudnn.benchmark = self._installed = True

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
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
