"""Linear layers computed in float8 by torchao, each with its own scales; weights stay as they are.

It helps large linear layers (from about 4096 on a side) on GPUs with float8 arithmetic, best when compiled
around. It hurts small ones: finding the scales takes longer than the product saves. Layers whose sides are
not divisible by 16 are left alone, and so are batches whose rows are not. Its rounding is so coarse that the
guard cannot distinguish it from a gradient that is five percent too large: judge the trained model with
``hasten verify``.

Source: https://github.com/pytorch/ao (torchao.float8) and Micikevicius et al., FP8 Formats for Deep Learning,
2022.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.modules import compiled_call, plain_call, put_call
from ..observing.compiling import BlockSlot
from ..seams import Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.cuda_only import refuse_elsewhere

if TYPE_CHECKING:
    from torch import device as Device
    from torch.nn import Linear

_LEAST_CAPABILITY = (8, 9)  # Ada and Hopper
_DIVISOR = 16  # of both sides, and of the rows that come in, for the kernels


class Fp8(Technique):
    name = "fp8"
    summary = "linear layers in float8, scaled tensor by tensor"
    layer = "application"
    risk = "close"
    scope = "live"
    precision = "float8"
    devices = frozenset({"cuda"})

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._layers = 0
        self._calls = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.accelerators else ["this machine has no GPU with float8 arithmetic"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return cls.refuse_machine(facts.machine) or refuse_elsewhere(facts)

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if not training.roots:
            return
        if not _installed("torchao"):
            raise NotApplicable("torchao is not installed, which has the float8 layers: pip install torchao")
        modules: list[Any] = [module for root in training.roots for module in root.modules()]
        layers: list[Linear] = [
            module
            for module in modules
            if type(module) is torch.nn.Linear and not any(side % _DIVISOR for side in module.weight.shape)
        ]
        if not all(_computes(torch, device) for device in {layer.weight.device for layer in layers}):
            raise NotApplicable("float8 arithmetic came with compute capability 8.9")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torchao's own modules, as they are imported
            kind: Any = importlib.import_module("torchao.float8.float8_linear").Float8Linear
        for layer in layers:
            if compiled_call(layer) is None:
                self._put_twin(torch, kind, layer)
        if not self._layers:
            raise NotApplicable(f"no linear layer has sides divisible by {_DIVISOR}")

    def _put_twin(self, torch: ModuleType, kind: Any, layer: Linear) -> None:
        """The twin holds the layer's own parameters and is registered nowhere."""
        twin = kind.from_float(layer)
        twin.weight, twin.bias = layer.weight, layer.bias

        def around(own: Any, args: tuple[Any, ...], kwargs: Kwargs) -> object:
            rows = args[0].numel() // own.in_features if args else 0
            if not torch.is_grad_enabled() or not rows or rows % _DIVISOR:  # of a last, smaller batch
                return plain_call(own)(*args, **kwargs)
            self._calls += 1
            return twin(*args, **kwargs)

        put_call(layer, BlockSlot(layer, around))
        ref = weakref.ref(layer)

        def undo() -> None:
            own = ref()
            if own is not None and isinstance(compiled_call(own), BlockSlot):
                put_call(own, None)

        self._undo.append(undo)
        self._layers += 1

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the calls of the float8 layers."""
        return Proof(self.name, self._calls > 0, f"{self._calls} float8 calls of {self._layers} layers")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "from torchao.float8 import convert_to_float8_training\n"
            "convert_to_float8_training(model)    # before model.compile() and the optimizer"
        )


def _computes(torch: ModuleType, device: Device) -> bool:
    """Whether the device has float8 arithmetic."""
    return bool(device.type == "cuda" and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # of a module that was put there without a spec
        return False
