"""The step waits for data."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "data")
    if share < _LEAST_SHARE:
        return None
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
