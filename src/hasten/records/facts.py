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
        """Kinds of device the training parameters are on: {"cpu"}, {"cuda"}."""
        return frozenset(device.split(":")[0] for root in self.observation.roots for device in root.devices)

    @property
    def on_cpu(self) -> bool:
        return self.devices == {"cpu"}
