"""All engines by their names."""

from __future__ import annotations

from .engine import LaunchEngine
from .local import Local
from .mpi import Mpich, OpenMpi
from .slurm import Slurm
from .torchrun import Torchrun

ENGINES: dict[str, LaunchEngine] = {
    engine.name: engine for engine in (Local(), Torchrun(), Slurm(), OpenMpi(), Mpich())
}
