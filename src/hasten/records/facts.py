"""What a technique decides by: the machine and the script, as observed."""

from __future__ import annotations

from dataclasses import dataclass

from .machine import Machine
from .observation import Observation


@dataclass(frozen=True)
class Facts:
    """Everything known before a trial; ``refuse`` and ``options`` of a technique read nothing else."""

    machine: Machine
    observation: Observation

    @property
    def devices(self) -> frozenset[str]:
        """Kinds of device the training parameters are on: {"cpu"}, {"cuda"}. A training may have tensors
        alone, and no module.
        """
        parts = self.observation.roots or self.observation.optimizers
        return frozenset(device.split(":")[0] for part in parts for device in part.devices)

    @property
    def on_cpu(self) -> bool:
        """All of the training; False where nothing tells what it is on."""
        return self.devices == {"cpu"}
