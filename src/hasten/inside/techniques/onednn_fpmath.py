"""oneDNN may multiply float32 numbers as bfloat16, adding up in float32: matrix products and convolutions.

It helps where a processor has matrix instructions for bfloat16 and the script is not under autocast:
parameters and activations stay float32, only products are rounded. It hurts where sums cancel. On x86
oneDNN takes it up with AMX only; with avx512_bf16 alone it computes in float32 all the same (seen with
oneDNN 3.12 by ONEDNN_VERBOSE).

Sources: https://docs.pytorch.org/docs/stable/notes/mkldnn.html (fp32_precision);
https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_fpmath_mode.html
"""

from __future__ import annotations

from typing import Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Call, NotApplicable, Training
from .base import Technique

_SIZE = 256  # of the matrices of the proof; torch leaves small ones to another library
_ROUNDING = 2.0**-8  # of bfloat16, relative; float32's is 2**-24


class OnednnFpmath(Technique):
    name = "onednn_fpmath"
    summary = "oneDNN multiplies float32 numbers as bfloat16"
    layer = "environment"
    risk = "close"
    scope = "live"
    conflicts = frozenset({"bf16"})  # under autocast there is nothing left for it
    precision = "bfloat16"
    devices = frozenset({"cpu"})

    def __init__(self) -> None:
        self._calls = 0
        self._before: tuple[str, str, str, str] | None = None

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        own = [name for name in machine.environment if name.endswith("_DEFAULT_FPMATH_MODE")]
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        needed = "bf16" if machine.architecture in ("aarch64", "arm64") else "amx_bf16"
        if needed in machine.cpu_flags:
            return []
        return [f"this CPU has no matrix instructions for bfloat16 ({needed}): oneDNN would not use it"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        if any(dtype != "float32" for root in facts.observation.roots for dtype in root.dtypes):
            reasons.append("parameters are not all float32")
        if "autocast" in facts.observation.uses:
            reasons.append("the script already uses autocast")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        """By torch's older setting for products, which keeps its getter working, and the newer for
        convolutions.
        """
        torch, backends = training.torch, training.torch.backends
        try:
            precision = torch.get_float32_matmul_precision()
        except RuntimeError:
            raise NotApplicable("the script sets fp32_precision itself, and that stands") from None
        if precision != "highest" or backends.mkldnn.conv.fp32_precision not in ("none", "ieee"):
            raise NotApplicable("the script sets a float32 precision itself, and that stands")
        self._before = (
            precision,
            backends.mkldnn.matmul.fp32_precision,
            backends.cuda.matmul.fp32_precision,
            backends.mkldnn.conv.fp32_precision,
        )
        torch.set_float32_matmul_precision("medium")
        backends.mkldnn.conv.fp32_precision = "bf16"

        def counting(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._calls += 1
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = counting

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        if self._before is None:
            return
        torch, backends = training.torch, training.torch.backends
        precision, matmul, cuda, conv = self._before
        torch.set_float32_matmul_precision(precision)
        backends.mkldnn.matmul.fp32_precision = matmul
        backends.cuda.matmul.fp32_precision = cuda
        backends.mkldnn.conv.fp32_precision = conv
        self._before = None

    def proof(self, training: Training) -> Proof:
        """Multiply numbers that bfloat16 rounds up, and see whether the product is larger by as much."""
        torch = training.torch
        numbers = torch.full((_SIZE, _SIZE), 1 + 0.75 * _ROUNDING * 2)  # bfloat16 makes 1 + 2**-7 of them
        exact = _SIZE * float(numbers[0, 0]) ** 2
        error = float((numbers @ numbers)[0, 0]) / exact - 1
        evidence = f"{self._calls} forward passes; a product of matrices is off by {error:.0e}"
        return Proof(self.name, self._calls > 0 and error > _ROUNDING / 4, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            'torch.set_float32_matmul_precision("medium")\ntorch.backends.mkldnn.conv.fp32_precision = "bf16"'
        )
