"""Products of float32 matrices by oneDNN, which may take them in bfloat16; sums stay in float32.

It helps where the time goes into large linear layers: with AMX they are computed in bfloat16, and with
AVX-512 alone by oneDNN's float32 kernels in place of MKL's (seen: AVX512_BF16 without AMX stays float32). It
does nothing for small products, nor where bf16 is on too. On a GPU tf32 is the technique.

Source: https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
"""

from __future__ import annotations

from typing import Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..products import device_of, product_changes
from ..training import Call, NotApplicable, Training
from .base import Technique

_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
_PRECISIONS = ("high", "medium")


class MatmulPrecision(Technique):
    name = "matmul_precision"
    summary = "float32 matrix products in lower precision inside, summed in float32"
    layer = "application"
    risk = "close"
    scope = "live"
    precision = "bfloat16"
    devices = frozenset({"cpu"})

    def __init__(self) -> None:
        self._before: str | None = None
        self._wanted = ""
        self._changes = False
        self._calls = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if not machine.accelerators and not _FLAGS & set(machine.cpu_flags):
            return ["this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16)"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not facts.on_cpu:
            return ["the training is not on the CPU: on a GPU, tf32 does this"]
        reasons = [] if _FLAGS & set(facts.machine.cpu_flags) else cls.refuse_machine(facts.machine)
        if all("float32" not in root.dtypes for root in facts.observation.roots):
            reasons.append("there are no float32 parameters")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """``high`` stands for tf32, for which oneDNN has no kernels on a CPU of today."""
        return [{"precision": "medium"}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"precision"} or settings.get("precision", "medium") not in _PRECISIONS:
            raise ValueError(f"matmul_precision takes precision, one of {', '.join(_PRECISIONS)}")

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        before, wanted = torch.get_float32_matmul_precision(), str(settings.get("precision", "medium"))
        if before != "highest":
            raise NotApplicable(f"the script has set the precision itself, to {before}")
        self._before, self._wanted = before, wanted
        torch.set_float32_matmul_precision(wanted)
        device = device_of(training)
        if device is not None:
            self._changes = product_changes(
                torch,
                device,
                lambda: torch.set_float32_matmul_precision(before),
                lambda: torch.set_float32_matmul_precision(wanted),
            )

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._calls += torch.is_grad_enabled() and torch.get_float32_matmul_precision() == wanted
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        if self._before is not None and training.torch.get_float32_matmul_precision() == self._wanted:
            training.torch.set_float32_matmul_precision(self._before)
        self._before = None

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes; and a product computed under the setting must differ from float32's."""
        changed = "differs" if self._changes else "does not differ"
        evidence = f"{self._calls} forward passes at {self._wanted}; a product {changed} from float32's"
        return Proof(self.name, self._changes and self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return f'torch.set_float32_matmul_precision("{settings.get("precision", "medium")}")'
