"""Epochs begin slowly: workers start, and the step waits for first batches."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .input import first_batches_too, made_here
from .of_the_run import account, cause_in_run, lines

_LEAST_SHARE = 0.02
_TECHNIQUES = ("persistent_workers", "dataset_in_ram", "loader_workers")


def look(facts: Facts) -> Cause | None:
    seen = account(facts)
    if seen is None or (seen.basis == "epochs" and facts.observation.first_epoch_alone):
        return None
    if first_batches_too(facts):
        return None
    text, parts = "passes before the first batches of epochs", ["first batches"]
    if not made_here(facts):
        loaders = facts.observation.training_loaders
        anew = any(loader.workers and not loader.keeps_workers for loader in loaders)
        workers = ", because its loader starts new worker processes" if anew else ""
        text, parts = f"passes between epochs and before their first batch{workers}", ["epoch turns", *parts]
    where = lines(seen.part("first batches"))
    return cause_in_run(facts, "epochs", tuple(parts), _LEAST_SHARE, f"{text}{where}", _TECHNIQUES)
