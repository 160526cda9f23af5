"""Lets oneDNN multiply float32 numbers as bfloat16, with sums in float32: in matrix products, convolutions.

Parameters and activations stay float32; only products are rounded. It helps if the time goes into large
linear layers or convolutions. With matrix instructions for bfloat16 (AMX, or ARM's) oneDNN uses them; with
AVX-512 alone it still computes in float32, with its own kernels instead of MKL's (seen with oneDNN 3.12 by
ONEDNN_VERBOSE, also with AVX512_BF16). It does nothing for small products, nor under autocast, and hurts if
sums cancel. On a GPU, use tf32 instead.

Sources: https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html;
https://docs.pytorch.org/docs/stable/notes/mkldnn.html (fp32_precision);
https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_fpmath_mode.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique, conflicting
from .support.float32_precision import Float32Precision, is_at, set_products
from .support.products import device_of, product_changes

if TYPE_CHECKING:
    from torch.nn import Module

_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
_MATRIX_FLAGS = {"x86_64": "amx_bf16", "aarch64": "bf16", "arm64": "bf16"}
_PRECISIONS = ("high", "medium")
_VARIABLE = "_DEFAULT_FPMATH_MODE"  # ONEDNN_..., DNNL_...


class MatmulPrecision(Technique):
    name = "matmul_precision"
    summary = "float32 products in lower precision inside, summed in float32"
    layer = "application"
    risk = "close"
    scope = "live"
    restarts = True
    conflicts = conflicting(
        bf16="under autocast no float32 products are left for it",
        fp16="under autocast no float32 products are left for it",
        tf32="torch keeps one precision for both",
    )
    precision = "bfloat16"
    devices = frozenset({"cpu"})

    def __init__(self) -> None:
        self._before: Float32Precision | None = None
        self._wanted = ""
        self._changes = False
        self._calls = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        own = [name for name in machine.environment if name.endswith(_VARIABLE)]
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        if not machine.accelerators and not _FLAGS & set(machine.cpu_flags):
            return ["this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16)"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not facts.on_cpu:
            return ["the training is not on the CPU: on a GPU, tf32 does this"]
        reasons = cls.refuse_machine(replace(facts.machine, accelerators=()))
        if all("float32" not in root.dtypes for root in facts.observation.roots):
            reasons.append("there are no float32 parameters")
        if "autocast" in facts.observation.uses:
            reasons.append("the script already uses autocast, under which there is nothing left for it")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Convolutions, too, if there are some and the processor has matrix instructions for bfloat16.
        ``high`` stands for tf32, for which oneDNN has no kernels on a CPU of today.
        """
        machine = facts.machine
        by_matrices = _MATRIX_FLAGS.get(machine.architecture, "") in machine.cpu_flags
        if by_matrices and any(root.convolutions for root in facts.observation.roots):
            return [{"precision": "medium", "convolutions": True}]
        return [{"precision": "medium"}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        fits = (
            set(settings) <= {"precision", "convolutions"}
            and settings.get("precision", "medium") in _PRECISIONS
            and isinstance(settings.get("convolutions", False), bool)
        )
        if not fits:
            raise ValueError(
                f"matmul_precision takes precision, one of {', '.join(_PRECISIONS)}, and convolutions, true "
                "or false"
            )

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        convolutions = bool(settings.get("convolutions", False))
        before = Float32Precision.now(torch)
        if before.products != "highest":
            raise NotApplicable(f"the script has set the precision itself, to {before.products}")
        if convolutions and before.onednn_convolutions not in ("none", "ieee"):
            raise NotApplicable(
                f"the script has set the precision of convolutions itself, to {before.onednn_convolutions}"
            )
        wanted = str(settings.get("precision", "medium"))
        self._before, self._wanted = before, wanted

        def put_on() -> None:
            set_products(torch, wanted)
            if convolutions:
                torch.backends.mkldnn.conv.fp32_precision = "bf16"

        put_on()
        device = device_of(training)
        if device is not None:
            self._changes = product_changes(torch, device, lambda: before.put_back(torch), put_on)

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            self._calls += torch.is_grad_enabled() and is_at(torch, wanted)
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        """What the script has set meanwhile stands."""
        training.forward_wrappers.pop(self.name, None)
        if self._before is not None and is_at(training.torch, self._wanted):
            self._before.put_back(training.torch)
        self._before = None

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes; and a product computed under the setting must differ from float32's."""
        changed = "differs" if self._changes else "does not differ"
        evidence = f"{self._calls} forward passes at {self._wanted}; a product {changed} from float32's"
        return Proof(self.name, self._changes and self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        products = f'torch.set_float32_matmul_precision("{settings.get("precision", "medium")}")'
        convolutions = '\ntorch.backends.mkldnn.conv.fp32_precision = "bf16"'
        return products + (convolutions if settings.get("convolutions") else "")
