"""The step waits for data."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share
from .of_the_run import of_the_run

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "data")
    if share < _LEAST_SHARE:
        return None
    if first_batches_too(facts):
        return of_the_run(_waiting(facts, share), facts, also="first batches")
    return of_the_run(_waiting(facts, share), facts)


def first_batches_too(facts: Facts) -> bool:
    """Whether an epoch's first batch is waited for as others are: without workers it is made as any other."""
    loaders = [loader for loader in facts.observation.loaders if loader.training]
    made_here = bool(loaders) and not any(loader.workers for loader in loaders)
    return made_here and phase_share(facts.observation, "data") >= _LEAST_SHARE


def _waiting(facts: Facts, share: float) -> Cause:
    loaders = [loader for loader in facts.observation.loaders if loader.training]
    made = ", ".join(dict.fromkeys(
        f"{loader.dataset} by {loader.workers} worker processes" if loader.workers
        else f"{loader.dataset} sample by sample in the training process"
        for loader in loaders
    ))  # fmt: skip
    return Cause(
        "input",
        share,
        f"{share:.0%} of a step is waiting for data: {made or 'a loader'}",
        (
            "dataset_in_ram",
            "batched_fetch",
            "sample_store",
            "batched_to_tensor",
            "native_resize",
            "loader_workers",
            "pin_memory",
            "device_prefetch",
            "uint8_transfer",
        ),
    )
