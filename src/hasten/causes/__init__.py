"""Why time is lost: each cause has its evidence and names the techniques it suggests. One cause a file."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from . import (
    compute,
    copies,
    debugging,
    epochs,
    evaluation,
    garbage,
    input,
    optimizer,
    output,
    padding,
    rollouts,
    saving,
    threads,
    waiting,
)
from .of_the_run import of_the_run

_OF_A_STEP = (input.look, copies.look, padding.look, compute.look, optimizer.look, waiting.look)
_OF_ALL_STEPS = (threads.look, debugging.look, rollouts.look)
_OF_THE_RUN = (evaluation.look, epochs.look, saving.look, output.look, garbage.look)


def find_causes(facts: Facts) -> list[Cause]:
    """The causes that the observation supports, the costliest first: by their share of the run where it was
    watched, else of a step.
    """
    found = [of_the_run(cause, facts) for look in _OF_A_STEP if (cause := look(facts)) is not None]
    found += [cause for look in (*_OF_ALL_STEPS, *_OF_THE_RUN) if (cause := look(facts)) is not None]
    return sorted(found, key=lambda cause: -cause.share)
