"""A technique that does nothing, and the bootstrap of a worker that knows it: for tests only.

``known_to_workers`` takes this file's path and ``Idle``.
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


class Idle(Technique):
    name = "idle"
    summary = "nothing"
    layer = "application"
    risk = "exact"
    scope = "live"

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, "nothing was done, as was asked for")


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    CATALOG[Idle.name] = Idle
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
