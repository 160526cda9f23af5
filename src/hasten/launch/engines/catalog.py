"""All engines by their names."""

from __future__ import annotations

from .containers import Apptainer, Docker
from .engine import LaunchEngine
from .exporters import Kubernetes, SkyPilot
from .local import Local
from .mpi import Mpich, OpenMpi
from .ray import Ray
from .slurm import Slurm
from .torchrun import Torchrun

_ALL: tuple[LaunchEngine, ...] = (
    *(Local(), Torchrun(), Slurm(), OpenMpi(), Mpich(), Ray()),
    *(Kubernetes(), SkyPilot(), Docker(), Apptainer()),
)
ENGINES = {engine.name: engine for engine in _ALL}
