"""What a script may report to hasten that is invisible from outside. Without hasten the calls do nothing."""

from __future__ import annotations

import os
from typing import Protocol, SupportsFloat

_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Listener(Protocol):
    """A worker that runs the script."""

    def step_said(self) -> None: ...

    def metric_said(self, values: dict[str, float]) -> None: ...


listener: Listener | None = None  # set by the worker before the script starts


def step() -> None:
    """Mark that a training step ends here.

    For loops in which an optimizer's step is not a training step. From the first call on, only
    these calls end a step.
    """
    if listener is not None:
        listener.step_said()


def metric(**values: SupportsFloat) -> None:
    """Report how good the model is now: ``hasten.metric(accuracy=0.87)``. Numbers or one-element tensors."""
    if listener is not None:
        listener.metric_said({name: float(value) for name, value in values.items()})


def is_main() -> bool:
    """Whether this process is rank 0, or the only one: the one that prints, logs and saves."""
    found = next((os.environ[name] for name in _RANK_VARIABLES if name in os.environ), "0")
    return found == "0"
