"""Epochs begin slowly: workers start, and the first step waits for its batch."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .input import first_batches_too
from .of_the_run import breakdown, cause_in_run, lines
from .turns import starts_anew, workers_end

_LEAST_SHARE = 0.02
_TECHNIQUES = ("persistent_workers", "dataset_in_ram", "loader_workers")


def look(facts: Facts) -> Cause | None:
    seen, run = breakdown(facts), facts.observation.run
    if seen is None or (seen.basis == "epochs" and facts.observation.first_epoch_alone):
        return None
    if first_batches_too(facts):
        return None
    text = "passes before the first batches of epochs"
    techniques: tuple[str, ...] = _TECHNIQUES
    if starts_anew(facts):
        text = (
            "passes between epochs and before their first batch, because its loader starts worker processes"
        )
        if run is not None and run.ended and run.epochs <= 1:
            techniques = tuple(name for name in techniques if name != "persistent_workers")
        else:
            text = f"{text} anew"
    text = f"{text}{lines(seen.part('first batches'))}"
    more = workers_end(facts)
    return cause_in_run(facts, "epochs", "first batches", _LEAST_SHARE, text, techniques, more)
