"""Why time is lost: each cause has its evidence and names the techniques it suggests. One cause a file."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from . import (
    compute,
    copies,
    debugging,
    double_precision,
    epochs,
    evaluation,
    garbage,
    input,
    loop,
    loss,
    optimizer,
    output,
    overhead,
    padding,
    rollouts,
    saving,
    threads,
    turns,
    waiting,
    workers,
)
from .bounds import bounded
from .of_the_run import of_the_run

_OF_A_STEP = (  # of two with the same share, the more specific one is listed first
    threads.look, double_precision.look, padding.look, copies.look, loss.look, overhead.look,
    compute.look, optimizer.look, workers.look, waiting.look, loop.look,
)  # fmt: skip
_OF_ALL_STEPS = (debugging.look, rollouts.look, input.look)
_OF_THE_RUN = (evaluation.look, epochs.look, turns.look, saving.look, output.look, garbage.look)


def find_causes(facts: Facts) -> list[Cause]:
    """The causes that the observation supports, most expensive first: by their share of the run if it was
    watched, otherwise of a step. Each has the bound of what a cure can give.
    """
    found = [cause for look in (*_OF_ALL_STEPS, *_OF_THE_RUN) if (cause := look(facts)) is not None]
    found += [of_the_run(cause, facts) for look in _OF_A_STEP if (cause := look(facts)) is not None]
    return sorted((bounded(cause, facts) for cause in found), key=lambda cause: -cause.share)
