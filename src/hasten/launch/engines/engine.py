"""The contract of engines: programs that people already have, which start processes on several hosts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import UsageError
from ...records.launch_job import LaunchJob
from ...safe_files import ROOT

FOLDER = Path(ROOT, "launches")  # in the job's: what engines leave there


@dataclass(frozen=True)
class Does:
    """What an engine does by itself.

    ``elastic``: goes on if hosts come and go; ``restarts``: restarts ranks when one has failed;
    ``hosts``: knows which hosts there are; ``submits``: hands the job to a queue, which outlives us;
    ``like_here``: its hosts have the files of this one at the same places; ``starts_hasten``: on one host it
    starts hasten itself, which starts the ranks; ``contains``: in an image; ``renders_only``: makes a file or
    a command for others to start, and starts nothing.
    """

    elastic: bool = False
    restarts: bool = False
    hosts: bool = False
    submits: bool = False
    like_here: bool = True
    starts_hasten: bool = False
    contains: bool = False
    renders_only: bool = False


@dataclass(frozen=True)
class There:
    """What one of our processes has to start on another host, through ``remote_entry.py``."""

    host: str
    folder: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def line(self) -> str:
        """The line to send on its standard input, which then stays open as long as we live."""
        told = {"folder": self.folder, "environment": dict(self.environment), "argv": self.argv}
        return f"{json.dumps(told)}\n"


@dataclass(frozen=True)
class Start:
    """One process of this machine. ``environment`` is set in addition to this process's own.

    ``there``: what it is told to start on another host; None if it starts nothing there, or needs no telling.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    there: There | None = None


@dataclass(frozen=True)
class Rendered:
    """``files``: text by absolute path, written before anything starts. ``output``: the file in which a job
    that is submitted leaves what it prints; "" if that comes through the process itself.
    """

    starts: tuple[Start, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    output: str = ""


class Submission(ABC):
    """A job that was started."""

    @abstractmethod
    def poll(self) -> int | None:
        """The exit code; None while it waits or runs."""

    @abstractmethod
    def cancel(self) -> None:
        """End it, and all that it started. May be called twice."""

    @property
    def label(self) -> str:
        """The number by which a person finds the job in its queue; "" if it is in none."""
        return ""

    @property
    def cause(self) -> str:
        """Why it failed, in a line: the first thing that was said of it; "" if that is not known here."""
        return ""


class LaunchEngine(ABC):
    """Stateless. ``render`` is pure: it reads no file, asks no host and starts nothing."""

    name: str
    does: Does = Does()

    @abstractmethod
    def available(self) -> str | None:
        """Why it cannot be used here, with what to do; None if it can be used."""

    @abstractmethod
    def render(self, job: LaunchJob) -> Rendered:
        """The processes and files of a job. Raises UsageError if this engine cannot run it."""

    def submit(self, job: LaunchJob, rendered: Rendered) -> Submission:
        """Start the job. Raises WorkerError if it cannot be started."""
        from .processes import Processes

        return Processes(rendered.starts, job.nodes)

    def check(self, job: LaunchJob) -> None:
        """Raises UsageError if the job asks for something that this engine does not do."""
        if job.nodes.elastic and not self.does.elastic:
            raise self.cannot(
                f"--nnodes {job.nodes}: it starts a fixed number of hosts. Say how many, as in --nnodes "
                f"{job.nodes.most}, or take --engine torchrun, which goes on where hosts come and go"
            )
        if job.max_restarts and not self.does.restarts:
            raise self.cannot(
                f"--max-restarts {job.max_restarts}: it does not restart ranks. Leave it out and start "
                "the script from its checkpoint, or take --engine torchrun"
            )
        if job.hosts and self.does.hosts:
            raise self.cannot(f"--hosts and --hostfile: {self.name} chooses the hosts itself. Leave them out")
        if job.node_rank is not None and self.name != "torchrun":
            raise self.cannot("--node-rank: only torchrun is started by hand on each host. Leave it out")
        if job.hosts and len(job.hosts) != job.nodes.most:
            raise UsageError(
                f"--nnodes {job.nodes} and {len(job.hosts)} hosts: name as many hosts as there are nodes, or "
                "leave --nnodes out"
            )

    def cannot(self, what: str) -> UsageError:
        """The error for something that this engine does not do; ``what`` continues "does not take"."""
        return UsageError(f"the engine {self.name} does not take {what}")
