"""The step waits for data."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.observation import Loader
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
    """Whether waiting for an epoch's first batch counts too: without workers it is made like any other."""
    return made_here(facts) and phase_share(facts.observation, "data") >= _LEAST_SHARE


def made_here(facts: Facts) -> bool:
    """Whether the training process makes its batches itself: then no loader takes time to start workers or
    to end them.
    """
    loaders = facts.observation.training_loaders
    return bool(loaders) and not any(loader.workers for loader in loaders)


def _waiting(facts: Facts, share: float) -> Cause:
    made = ", ".join(dict.fromkeys(map(_making, facts.observation.training_loaders)))
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


def _making(loader: Loader) -> str:
    """What makes its samples, and how."""
    if loader.workers:
        return f"{loader.dataset} by {loader.worker_processes}"
    one_by_one = "sample by sample " if loader.default_fetch else ""
    return f"{loader.dataset} {one_by_one}in the training process"
