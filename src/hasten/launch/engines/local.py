"""This machine alone, by hasten itself: ranks that are started and ended as one program."""

from __future__ import annotations

from ...records.launch_job import LaunchJob
from .engine import Does, LaunchEngine, Rendered, Start


class Local(LaunchEngine):
    """What ``hasten run --nproc-per-node`` does without an engine."""

    name = "local"
    does = Does(meets=True, like_here=False)  # nothing need go along

    def available(self) -> str | None:
        return None

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        if job.hosts or job.nodes.most > 1:
            raise self.cannot(
                "other hosts: it is this machine alone. Take --engine torchrun, slurm, openmpi, mpich or ray"
            )
        return Rendered((Start(job.command, job.environment),), secrets=job.secrets)
