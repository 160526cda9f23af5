"""What is planted into the trainings of ``benchmarks/planted``: each costs a large part of the run."""

from __future__ import annotations

from . import in_data, in_epochs, in_loop, in_passes

PLANTS = (*in_data.PLANTS, *in_epochs.PLANTS, *in_passes.PLANTS, *in_loop.PLANTS)
