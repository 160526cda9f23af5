"""The whole catalogue with nothing behind it: techniques are asked for, tried and judged as they are, and do
nothing. Also the bootstrap of a worker that knows it: for tests and benchmarks only.

Put this file's path in place of ``launch.local.BOOTSTRAP``, and ``idle_catalogue()`` into this process's
catalogue.
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
from hasten.records.trial import Proof

ON_PAPER = (
    *(
        "name",
        "summary",
        "layer",
        "risk",
        "scope",
        "conflicts",
        "precision",
        "devices",
        "for_speed",
        "steadies",
    ),
    *(
        "slow_to_set_up",
        "jointly",
        "risk_for",
        "changes_training",
        "refuse_machine",
        "refuse",
        "options",
        "check",
    ),
    *("excludes", "refuse_settings"),
)
"""What the search asks a technique; ``scope`` apart, nothing that is done to a training."""


class _Nothing(Technique):
    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, "nothing was done, as was asked for")


def idle_catalogue() -> dict[str, type[Technique]]:
    """By name, without those of launch scope: another number of processes is no plan that changes nothing."""
    return {name: _idle(real) for name, real in CATALOG.items() if real.scope != "launch"}


def _idle(real: type[Technique]) -> type[Technique]:
    found: dict[str, object] = {}
    for one in reversed(real.__mro__):
        found.update({name: value for name, value in vars(one).items() if name in ON_PAPER})
    return type(f"Idle{real.__name__}", (_Nothing,), found)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    idle = idle_catalogue()
    CATALOG.clear()
    CATALOG.update(idle)
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
