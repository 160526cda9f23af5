"""The command that starts a run in a container: Docker's, and Apptainer's, which clusters have.

Sources: docker-run(1); https://apptainer.org/docs/user/latest/cli/apptainer_exec.html.
"""

from __future__ import annotations

from ...errors import UsageError
from ...records.launch_job import PATIENCE_SECONDS, LaunchJob
from ..hosts import place_of
from .engine import Does, LaunchEngine, Rendered, Start
from .exporters import inside

_SPECIAL = {"docker": ',"\n', "apptainer": ",:\n"}  # what would divide a path in their options


class Container(LaunchEngine):
    """Runs ``hasten run`` in a container, where the working directory has the same path as here."""

    does = Does(
        elastic=True, restarts=True, like_here=False, starts_hasten=True, contains=True, renders_only=True
    )

    def available(self) -> str | None:
        return None

    def checked(self, job: LaunchJob) -> None:
        """Raises UsageError if the job cannot run in a container."""
        self.check(job)
        if not job.image:
            raise UsageError(
                f"--engine {self.name} needs --image IMAGE, in which hasten and torch are installed"
            )
        if any(letter in job.folder for letter in _SPECIAL[self.name]):
            raise self.cannot(f"the folder {job.folder!r}: its name would be split in two. Rename it")
        if job.hosts:
            raise self.cannot("--hosts: start it on each host, with --nnodes and --rdzv-endpoint HOST:PORT")
        if job.nodes.most > 1 and not job.address:
            raise UsageError(f"--nnodes {job.nodes}: say where ranks meet by --rdzv-endpoint HOST:PORT")


def inner(job: LaunchJob) -> list[str]:
    """hasten's command line in the container."""
    hasten, verb, *words = inside(job)
    engine = ["--nproc-per-node", str(job.nproc_per_node)] if job.nproc_per_node > 1 else []
    if job.nodes.most > 1 or job.max_restarts:
        engine += ["--engine", "torchrun"]
        patience = job.group_timeout_seconds
        engine += [f"--group-timeout={patience:g}"] if patience != PATIENCE_SECONDS else []
    if job.nodes.most > 1:
        engine += ["--nnodes", str(job.nodes)]
        engine += ["--rdzv-endpoint", place_of(job.address, job.port), "--rdzv-id", job.name]
        engine += ["--interface", job.interface] if job.interface else []
    engine += ["--max-restarts", str(job.max_restarts)] if job.max_restarts else []
    return [hasten, verb, *engine, *words]


class Docker(Container):
    """Uses the host's network only if ranks are on several hosts."""

    name = "docker"

    def render(self, job: LaunchJob) -> Rendered:
        self.checked(job)
        words = ["docker", "run", "--rm", "--init", "--shm-size=1g"]
        words += ["--network=host"] if job.nodes.most > 1 else []
        words += [f"--mount=type=bind,source={job.folder},target={job.folder}", f"--workdir={job.folder}"]
        words += [word for name in sorted(job.secrets) for word in ("--env", name)]
        hidden = {name: job.environment[name] for name in sorted(job.secrets)}
        start = Start((*words, *job.options, job.image, *inner(job)), hidden)
        return Rendered((start,))


class Apptainer(Container):
    """Passes on the user's environment and network, as Apptainer does by default."""

    name = "apptainer"

    def render(self, job: LaunchJob) -> Rendered:
        self.checked(job)
        words = ["apptainer", "exec", f"--bind={job.folder}", f"--pwd={job.folder}"]
        hidden = {name: job.environment[name] for name in sorted(job.secrets)}
        start = Start((*words, *job.options, job.image, *inner(job)), hidden)
        return Rendered((start,))
