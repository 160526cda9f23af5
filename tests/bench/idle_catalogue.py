"""The whole catalogue with nothing behind it: techniques are asked for, tried and judged as they are, and do
nothing. Also the bootstrap of a worker that knows it: for tests and benchmarks only.

``known_to_workers`` takes this file's path and ``idle_catalogue()``.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import hasten
from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import Training
from hasten.records.machine import Machine
from hasten.records.plan import Settings
from hasten.records.trial import Proof


class _Nothing(Technique):
    """All that is done to a training, undone; what the search asks is left to the real one."""

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        return {}

    @classmethod
    def ahead(cls, settings: Settings) -> int:
        return 0

    @classmethod
    def starts_after(cls, settings: Settings) -> int:
        return 0

    def start(self, training: Training, settings: Settings) -> None:
        pass

    def install(self, training: Training, settings: Settings) -> None:
        pass

    def prepare(self, training: Training) -> None:
        pass

    def seconds_in_steps(self) -> float:
        return 0.0

    def remove(self, training: Training) -> None:
        pass

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, "nothing was done, as was asked for")


def idle_catalogue() -> dict[str, type[Technique]]:
    """By name, without those of launch scope: another number of processes is no plan that changes nothing."""
    return {
        name: type(f"Idle{real.__name__}", (_Nothing, real), {})
        for name, real in CATALOG.items()
        if real.scope != "launch"
    }


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    idle = idle_catalogue()
    CATALOG.clear()
    CATALOG.update(idle)
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
