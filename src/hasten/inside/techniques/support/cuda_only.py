"""Common refusals of techniques for NVIDIA GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....records.facts import Facts
from ....records.machine import Machine
from ...training import NotApplicable, Training
from .products import device_of

if TYPE_CHECKING:
    from torch import device as Device


def refuse_without_gpu(machine: Machine) -> list[str]:
    return [] if machine.accelerators else ["this machine has no NVIDIA GPU"]


def refuse_elsewhere(facts: Facts) -> list[str]:
    """For a machine with a GPU: reasons if the training is not on it."""
    return [] if facts.devices == {"cuda"} else ["the training is not on a CUDA GPU"]


def device_for(training: Training, what: str) -> Device | None:
    """The training's device; None before one is known. Raises NotApplicable if ``what`` is not for it."""
    device = device_of(training)
    if device is not None and device.type != "cuda":
        raise NotApplicable(f"the training is on {device}, and {what} is for CUDA")
    return device
