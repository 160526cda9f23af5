"""Worker processes of loaders take processors that the training computes on."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.loading import taken_by_workers
from ..records.waiting import LEAST_WAITING

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    share, used = taken_by_workers(facts), facts.observation.processors
    loaders = [loader for loader in facts.observation.training_loaders if loader.workers]
    if share < _LEAST_SHARE or used is None or not loaders:
        return None
    made = " and ".join(f"{loader.dataset} by {loader.worker_processes}" for loader in loaders)
    evidence = (
        f"{share:.0%} of a step, at most, is lost to worker processes ({made}): they keep "
        f"{used.workers:.1f} of {facts.machine.usable_cpus} processors busy, which the training needs as well"
    )
    techniques: tuple[str, ...] = ("loader_workers", "sample_store", "batched_to_tensor", "native_resize")
    threads = facts.observation.threads
    if threads > 1 and used.waiting >= LEAST_WAITING:
        evidence += f", and of torch's {threads} threads, {min(used.waiting, threads):.1f} wait for one"
        techniques += ("threads",)
    return Cause("workers", share, evidence, techniques)
