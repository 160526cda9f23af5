"""Put the training's batches into page-locked memory and copy them to the GPU while the script goes on.

What it does: a loader that is read with gradients enabled gets ``pin_memory=True``; ``.to(device)`` and
``.cuda()`` of a page-locked tensor do not wait for the copy. Kernels that use the copy come after it on the
same stream. When it helps: batches are large and their copies keep the script from launching kernels. When it
hurts: page-locked memory is short, or batches are so small that the copy into it costs more than it saves. A
script that writes into a batch after sending it to the GPU would change what is still being copied: the guard
compares the results.

Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..samples.loader_override import LoaderOverride
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.device_copies import needs_cuda, sending, target_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import DataLoader


class PinMemory(Technique):
    name = "pin_memory"
    summary = "batches lie in page-locked memory, and the script does not wait for their copies"
    layer = "data"
    risk = "exact"
    scope = "process"
    device = "cuda"

    def __init__(self) -> None:
        self._override: LoaderOverride | None = None
        self._sent = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.accelerators else ["there is no GPU to copy batches to"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = needs_cuda(facts)
        loaders = facts.observation.training_loaders
        if loaders and all(loader.pin_memory for loader in loaders):
            reasons.append("the script pins its batches already")
        return reasons

    def start(self, training: Training, settings: Settings) -> None:
        torch, home = training.torch, os.getpid()
        if not torch.cuda.is_available():
            raise NotApplicable("torch finds no CUDA device")

        def choose(loader: DataLoader[object]) -> Mapping[str, object] | None:
            if os.getpid() != home or loader.pin_memory or not torch.is_grad_enabled():
                return None
            return {"pin_memory": True}

        def send(original: Call, tensor: Tensor, args: Args, kwargs: Kwargs) -> object:
            target = target_of(torch, tensor, args, kwargs)
            if target is None or target.type != self.device or not tensor.is_pinned():
                return original(tensor, *args, **kwargs)
            self._sent += 1
            return original(tensor, device=target, non_blocking=True)

        self._override = LoaderOverride(training, choose)
        sending(training, send)

    def proof(self, training: Training) -> Proof:
        """Counts the batches that came pinned and the copies that were not waited for: it needs both."""
        batches = self._override.batches if self._override is not None else 0
        evidence = f"{batches} batches were pinned; {self._sent} copies to the GPU were not waited for"
        return Proof(self.name, batches > 0 and self._sent > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "loader = DataLoader(dataset, ..., pin_memory=True)\n"
            "inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)"
        )
