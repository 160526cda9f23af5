"""torchrun: on each of a list of hosts by ssh, or on this one, as a person starts it.

Source: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ...errors import UsageError
from ...records.launch_job import LaunchJob
from ..hosts import place_of, without_user
from ..rendezvous import LOCAL
from . import ssh
from .engine import Does, LaunchEngine, Rendered, Start, Submission

ENTRY = Path(__file__).resolve().parent.parent / "torchrun_entry.py"
_LAST_CALL_SECONDS = 15  # in which more hosts may join, if their number may vary


class Torchrun(LaunchEngine):
    """Starts torchrun on each host. It goes on without hosts that are lost, if ``--nnodes`` allows fewer."""

    name = "torchrun"
    does = Does(elastic=True, restarts=True)

    def available(self) -> str | None:
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed together with hasten"
        return None

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        if not job.hosts:
            return Rendered((self._by_hand(job),))
        if job.node_rank is not None:
            raise UsageError(
                "--node-rank: ssh starts it on all hosts and numbers them. Leave out either it or the hosts"
            )
        meets = job.address or without_user(job.hosts[0])
        towards = meets if job.nodes.most > 1 else ""  # ranks of one host need not be reached by others
        starts = []
        for number, host in enumerate(job.hosts):
            argv = (job.python, str(ENTRY), towards, job.interface, *words(job, meets, is_host=number == 0))
            starts.append(ssh.on_host(host, argv, job.folder, job.environment, job.python))
        return Rendered(tuple(starts))

    def submit(self, job: LaunchJob, rendered: Rendered) -> Submission:
        why = ssh.why_not() if job.hosts else None
        if why is not None:
            raise UsageError(why)
        return super().submit(job, rendered)

    def _by_hand(self, job: LaunchJob) -> Start:
        several = job.nodes.most > 1
        if several and not job.address:
            raise UsageError(
                f"--nnodes {job.nodes}: say which hosts, by --hosts h1,h2 or --hostfile FILE, and ssh starts "
                "them all; or start this on each host with --rdzv-endpoint HOST:PORT, one of them"
            )
        is_host = None if job.node_rank is None else job.node_rank == 0
        argv = (
            *(job.python, str(ENTRY), job.address if several else "", job.interface if several else ""),
            *words(job, job.address, is_host if several else None),
        )
        return Start(argv, job.environment)


def words(job: LaunchJob, address: str, is_host: bool | None) -> tuple[str, ...]:
    """torchrun's arguments on a host. ``is_host``: whether ranks meet there; None: it finds that out."""
    conf = [] if is_host is None else [f"is_host={int(is_host)}"]
    conf += [f"last_call_timeout={_LAST_CALL_SECONDS}"] if job.nodes.elastic else []
    made = ["--nnodes", str(job.nodes), "--nproc-per-node", str(job.nproc_per_node)]
    if job.nodes.most > 1:
        place = place_of(address, job.port)
        made += ["--rdzv-backend", "c10d", "--rdzv-endpoint", place, "--rdzv-id", job.name]
        made += ["--rdzv-conf", ",".join(conf)] if conf else []
    else:
        made += ["--standalone", "--local-addr", LOCAL]  # the host's own name may lead nowhere
    made += ["--max-restarts", str(job.max_restarts), *job.options]
    return (*made, "--no-python", *job.command)
