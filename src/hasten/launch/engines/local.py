"""This machine alone, by hasten itself: ranks that are started and ended as one program."""

from __future__ import annotations

from ...records.launch_job import LaunchJob
from .engine import Does, LaunchEngine, Rendered, Start


class Local(LaunchEngine):
    """What ``hasten run --nproc-per-node`` does without an engine."""

    name = "local"
    does = Does(like_here=False, starts_hasten=True)  # nothing need go along

    def available(self) -> str | None:
        return None

    def check(self, job: LaunchJob) -> None:
        if job.hosts or job.nodes.most > 1:
            raise self.cannot(
                "other hosts: it is this machine alone. Take --engine torchrun, slurm, openmpi, mpich or ray"
            )
        super().check(job)

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        return Rendered((Start(job.command, job.environment),))
