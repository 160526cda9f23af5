"""How long a run of the script is, as far as known."""

from __future__ import annotations

import math

from ..records.observation import Observation
from ..records.phases import samples_per_step
from ..records.run_forecast import RunLength
from ..records.whole_run import ENDLESS_STEPS

_CONTRADICTED = 1.02  # times an epoch by its loader: if its end was not seen by then, it is longer


def length_of(
    observation: Observation,
    script_steps: int | None,
    ends_every: float | None = None,
    ranks: int = 1,
    planned: int | None = None,
) -> RunLength:
    """``script_steps``: of the whole script, if a worker reached its end. ``ends_every``: steps between
    two ends of epochs that were seen. ``ranks`` that share the batches of a script that is distributed
    itself. ``planned``: steps of the whole script, as its loops say.
    """
    run = observation.run
    epoch = run.epoch_steps if run is not None else _epoch_steps(observation, ranks)
    if (epoch or 0) >= ENDLESS_STEPS:
        epoch = None
    wrong = epoch is not None and ends_every is not None and ends_every > _CONTRADICTED * epoch
    if wrong:
        epoch = None
    if script_steps:
        return RunLength(script_steps, epoch, "seen")
    by_epochs = run is not None and run.epoch_seen
    if planned is not None and not wrong:
        return RunLength(planned, epoch, "loops", by_epochs)
    if epoch is None:
        return RunLength()
    return RunLength(None, epoch, "" if by_epochs else "loader", by_epochs)


def _epoch_steps(observation: Observation, ranks: int) -> int | None:
    """Steps of an epoch, by the samples of the only loader that is trained on."""
    loaders = observation.training_loaders
    each = samples_per_step(observation)
    if len(loaders) != 1 or loaders[0].iterable or not loaders[0].samples or not each:
        return None
    return math.ceil(loaders[0].samples / (each * ranks))
