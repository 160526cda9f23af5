"""What a technique decides from: the machine and the script, as observed."""

from __future__ import annotations

from dataclasses import dataclass

from .machine import Machine
from .observation import Observation


@dataclass(frozen=True)
class Facts:
    """Everything known before a trial; a technique's ``refuse`` and ``options`` read nothing else."""

    machine: Machine
    observation: Observation

    @property
    def devices(self) -> frozenset[str]:
        """Kinds of device the training parameters are on: {"cpu"}, {"cuda"}. A training may consist
        of tensors alone, without a module or an optimizer: then it is on the CPU where there is nothing else.
        """
        parts = self.observation.roots or self.observation.optimizers
        if not parts and not self.machine.accelerators:
            return frozenset({"cpu"})
        return frozenset(device.split(":")[0] for part in parts for device in part.devices)

    @property
    def on_cpu(self) -> bool:
        """Whether all of the training is; False if unknown."""
        return self.devices == {"cpu"}

    @property
    def on_gpu(self) -> bool:
        """Whether any of it is; False if unknown."""
        return bool(self.devices - {"cpu"})
