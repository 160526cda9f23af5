"""Epochs begin slowly: workers start, first batches are waited for."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .input import first_batches_too
from .of_the_run import account, cause_in_run, lines

_LEAST_SHARE = 0.02
_TECHNIQUES = ("persistent_workers", "dataset_in_ram", "loader_workers")


def look(facts: Facts) -> Cause | None:
    seen = account(facts)
    if seen is None or (seen.basis == "epochs" and facts.observation.first_epoch_alone):
        return None
    loaders = (loader for loader in facts.observation.loaders if loader.training)
    anew = any(loader.workers and not loader.keeps_workers for loader in loaders)
    workers = ", whose loader starts its worker processes anew" if anew else ""
    if first_batches_too(facts):
        return cause_in_run(
            facts, "epochs", ("epoch turns",), _LEAST_SHARE, "passes between epochs", _TECHNIQUES
        )
    text = f"passes between epochs and before their first batch{workers}{lines(seen.part('first batches'))}"
    return cause_in_run(facts, "epochs", ("epoch turns", "first batches"), _LEAST_SHARE, text, _TECHNIQUES)
