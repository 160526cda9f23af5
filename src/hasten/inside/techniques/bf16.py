"""The forward pass in bfloat16 by autocast; its outputs come back in float32, so that the loss is as written.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Call, Training
from .base import Technique

_CPU_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


class Bf16(Technique):
    name = "bf16"
    summary = "forward pass under bfloat16 autocast, outputs cast back to float32"
    layer = "application"
    risk = "close"
    scope = "live"
    precision = "bfloat16"

    def __init__(self) -> None:
        self._calls = 0
        self._lowered = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = []
        if facts.on_cpu and not _CPU_FLAGS & set(facts.machine.cpu_flags):
            reasons.append(
                "this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16): emulated, they are slower"
            )
        if any(dtype != "float32" for root in facts.observation.roots for dtype in root.dtypes):
            reasons.append("parameters are not all float32")
        if "autocast" in facts.observation.uses:
            reasons.append("the script already uses autocast")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        reduced = torch.bfloat16

        def lowered(value: Any) -> bool:
            return bool(torch.is_tensor(value) and value.dtype == reduced)

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            device = next(root.parameters()).device.type
            if not torch.is_grad_enabled() or torch.is_autocast_enabled(device):
                return call(*args, **kwargs)
            watch = self._watch_first_layer(torch, root, lowered) if self._calls == 0 else None
            autocast = torch.autocast(device, dtype=reduced)
            autocast._by_hasten = True
            try:
                with autocast:
                    output = call(*args, **kwargs)
            finally:
                if watch is not None:
                    watch.remove()
            self._calls += 1
            return in_float32(torch, output)

        training.forward_wrappers[self.name] = forward

    def _watch_first_layer(self, torch: Any, root: Any, lowered: Any) -> Any:
        """A hook, for one call, on a layer that autocast must lower: its output's type is the proof."""
        layers = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
        layer = next((m for m in root.modules() if isinstance(m, layers)), None)
        if layer is None:
            return None

        def count(module: Any, args: Any, output: Any) -> None:
            self._lowered += lowered(output)

        return layer.register_forward_hook(count)

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)

    def proof(self, training: Training) -> Proof:
        lowered = "came out" if self._lowered else "did not come out"
        evidence = f"{self._calls} forward passes under autocast; the first layer {lowered} in bfloat16"
        return Proof(self.name, self._calls > 0 and self._lowered > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "with torch.autocast(device_type, dtype=torch.bfloat16):\n"
            "    output = model(inputs)\n"
            "loss = criterion(output.float(), targets)"
        )


def in_float32(torch: Any, output: Any) -> Any:
    """``output`` with float32 in place of bfloat16, in containers too. Of dataclasses, and of dicts that
    pytree does not know, copies are made: the model may keep its own.
    """

    def restored(value: Any) -> Any:
        if torch.is_tensor(value):
            return value.float() if value.dtype == torch.bfloat16 else value
        is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
        if not is_record and not isinstance(value, dict):
            return value
        kind: Any = type(value)
        twin = kind.__new__(kind)
        if hasattr(value, "__dict__"):
            vars(twin).update(vars(value))
        if isinstance(value, dict):
            for key in value:
                twin[key] = in_float32(torch, value[key])
        for field in dataclasses.fields(value) if is_record else ():
            object.__setattr__(twin, field.name, in_float32(torch, getattr(value, field.name)))
        return twin

    return torch.utils._pytree.tree_map(restored, output)
