"""Products of float32 matrices, and convolutions, by TensorFloat-32: 10 bits of mantissa, sums in float32.

It helps on NVIDIA GPUs since Ampere wherever float32 products take the time: they are several times as fast.
It does nothing for what autocast lowers anyway, and hurts where a script needs float32's last digits
(linear solvers, large sums with cancellation).

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html (TensorFloat-32)
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.cuda_only import device_for, refuse_elsewhere, refuse_without_gpu
from .support.float32_precision import Float32Precision, older_words
from .support.products import product_changes

if TYPE_CHECKING:
    from torch.nn import Module

_LEAST_CAPABILITY = (8, 0)  # Ampere


class Tf32(Technique):
    name = "tf32"
    summary = "float32 products and convolutions by TensorFloat-32"
    layer = "application"
    risk = "close"
    scope = "live"
    precision = "tfloat32"
    devices = frozenset({"cuda"})

    def __init__(self) -> None:
        self._before: tuple[Float32Precision, bool] | None = None
        self._changes = False
        self._calls = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return refuse_without_gpu(machine)

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine) or refuse_elsewhere(facts)
        if all("float32" not in root.dtypes for root in facts.observation.roots):
            reasons.append("there are no float32 parameters")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        device = device_for(training, "TensorFloat-32")
        if device is not None and torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
            raise NotApplicable("this GPU has no TensorFloat-32: it came with compute capability 8.0")
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = Float32Precision.now(torch)
        with older_words():
            products, convolutions = matmul.allow_tf32, cudnn.allow_tf32
        if products and convolutions:
            raise NotApplicable("the script allows TensorFloat-32 itself")
        self._before = (before, convolutions)

        def put_on() -> None:
            """What is allowed already may be allowed by a lower precision ("medium"), which stays."""
            with older_words():
                if not matmul.allow_tf32:
                    matmul.allow_tf32 = True
                cudnn.allow_tf32 = True

        put_on()
        if device is not None:
            self._changes = product_changes(torch, device, lambda: self._put_back(torch), put_on)

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            self._calls += torch.is_grad_enabled() and matmul.fp32_precision == "tf32"
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        self._put_back(training.torch)
        self._before = None

    def _put_back(self, torch: ModuleType) -> None:
        if self._before is not None:
            before, convolutions = self._before
            with older_words():
                torch.backends.cudnn.allow_tf32 = convolutions
            before.put_back(torch)

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes; and a product computed under the setting must differ from float32's."""
        changed = "differs" if self._changes else "does not differ"
        evidence = f"{self._calls} forward passes; a product {changed} from float32's"
        return Proof(self.name, self._changes and self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.allow_tf32 = True"
