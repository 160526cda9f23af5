"""How ``hasten run`` starts its script: in its own place, as a rank of another launcher, or as N ranks."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

from .. import saying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..inside.job import Job
    from ..launch.launched_rank import LaunchedRank
    from ..records.diagnosis import Distribution
    from ..records.launch_job import Launched
    from ..records.plan import Plan
    from ..scripts.workspace import Script

_OWN_NAMES = {"mpi", "ccl", "shm"}  # of backends that a script may name, and torch does not know
_SAID = "HASTEN_SAID"  # tells the ranks of our mpirun that we have spoken already


def start(
    job: Job, script: Script, found: Distribution, arguments: SimpleNamespace, told: Launched | None
) -> int:
    """The exit code; does not return if the script replaces this process. ``found``: how the script trains in
    several processes, read from its source. ``told``: by our engine, if one started this process as a rank.
    """
    from ..errors import UsageError
    from ..launch.chosen import check_backends, check_processes
    from ..launch.launched_rank import launched_rank
    from ..launch.ranks_of_plan import wish_of
    from ..launch.unranked import OURS
    from .across_hosts import start_across_hosts

    if found.data_parallel:
        from ..doctor import BY_HAND

        say(
            f"{found.data_parallel} copies the model in every step if it has several GPUs; hasten run "
            f"--nproc-per-node N trains in N processes instead, without a change; {BY_HAND}"
        )
    count, launched = arguments.nproc_per_node, launched_rank(os.environ)
    if launched is not None and launched.size > 1 and count is not None:
        raise UsageError(
            f"{launched.launcher} started this as rank {launched.rank} of {launched.size} already: leave out "
            "--nproc-per-node, or start hasten without it"
        )
    if launched is not None and (told is not None or launched.local_size < launched.size):
        check_for_ranks(script, found, launched.size, arguments.ranks)
    check_processes(job.plan, found, arguments.ranks or "")
    if found.kind and arguments.ranks == "ours":
        raise UsageError(
            f"{found.sign} makes the script one of several ranks by itself, and --ranks ours is for "
            "scripts that know of none: leave it out"
        )
    by_script = found.kind == "ranks" if arguments.ranks is None else arguments.ranks == "script"
    if by_script:
        check_backends(found, arguments.backend or "", job.machine)
    code = start_across_hosts(job, script, found, arguments, told)
    if code is not None:
        return code
    for name in OURS:
        os.environ.pop(name, None)
    wish = None if by_script else wish_of(job.plan)
    if count is None and wish is None:
        if launched is not None:
            return as_launched(_in_one(job), script, found, arguments, launched, told)
        return alone(_in_one(job), script, found, arguments.backend or "")
    if found.kind == "spawns" and arguments.ranks is None:
        say(f"{found.sign} starts the script's own ranks, so it is started once")
        return alone(job, script, found, arguments.backend or "")
    if by_script:
        if (arguments.backend or "mpi") == "mpi" and "mpi" in (arguments.backend, *found.backends):
            by_mpirun(job, script, found, arguments)
        return as_the_script_asks(_in_one(job), found, count, arguments.backend or "")
    return as_we_share(in_several(job, count, arguments.backend), script)


def check_for_ranks(
    script: Script, found: Distribution, size: int, ranks: str | None, elastic: bool = False
) -> None:
    """Raises UsageError if ``size`` ranks of an engine cannot train the script. ``ranks``: as in --ranks."""
    from ..errors import UsageError
    from ..launch.engine_scripts import why_not_by_ranks

    reason = why_not_by_ranks(found, script.label, size, ranks == "script", elastic)
    if reason:
        raise UsageError(reason)


def why_several(arguments: SimpleNamespace, found: Distribution, plan: Plan) -> str:
    """By what it is a training of several processes; "" if it is one of one process."""
    from ..launch.launched_rank import launched_rank

    launched = launched_rank(os.environ)
    if arguments.nproc_per_node is not None:
        return f"--nproc-per-node {arguments.nproc_per_node}"
    if launched is not None and launched.size > 1:
        return f"{launched.launcher} started this as one of {launched.size} ranks"
    if "processes" in plan.techniques:
        return "the plan trains in several processes"
    return f"{found.sign} makes the script one of several ranks" if found.kind else ""


def _in_one(job: Job) -> Job:
    """The job with a plan that says nothing about processes."""
    return replace(job, plan=job.plan.without("processes"))


def in_several(job: Job, count: int | None, backend: str | None) -> Job:
    """The job with a plan that says how many processes there are: ``count`` of them, if that is given.

    Raises UsageError if the plan has something in it that cannot be trained by several.
    """
    from ..errors import UsageError
    from ..inside.techniques.exclusion import against

    settings = dict(job.plan.techniques.get("processes", {}))
    if count is not None and count != settings.get("count"):
        settings = {key: value for key, value in settings.items() if key not in ("threads", "bind")}
        settings["count"] = count
    if backend is not None:
        settings["backend"] = "mpi4py" if backend == "mpi" else backend
    apart = against(job.plan, "processes", settings)
    if apart is not None:
        raise UsageError(
            f"--nproc-per-node {settings['count']}: {apart}; leave it out, or take {apart.second} out by "
            f"--without {apart.second}"
        )
    return replace(job, plan=job.plan.adding("processes", settings))


def as_we_share(job: Job, script: Script) -> int:
    """Ranks of a script that knows of none: each trains on its part of every batch."""
    from ..errors import UsageError
    from ..launch.chosen import check_wish, ranks_of_ours
    from ..launch.ranks import run_ranks
    from ..launch.ranks_of_plan import wish_of
    from ..records.diagnosis import Distribution
    from ..scripts.script_asks import asks_at_terminal
    from .rehearsed_ranks import rehearsed

    wish = wish_of(job.plan)
    assert wish is not None
    check_wish(wish, job.machine)
    if wish.count == 1:
        alone(_in_one(job), script, Distribution(), "")
    asks = asks_at_terminal(script) if os.isatty(0) else ""
    if asks:
        raise UsageError(
            f"{asks} may ask at the terminal in the middle of the training, and the terminal is rank 0's "
            "alone. From a file every rank reads the same: hasten run ... < FILE (or < /dev/null)"
        )
    with rehearsed(job, script, wish, say) as ready:
        first, *others = ranks_of_ours(job, wish, os.environ, ready.found, ready.place)
        ranks = [replace(rank, given=ready.trials.rank_input()) for rank in (first, *ready.protected(others))]
        say_of_shared_memory(wish.count)
        say(f"{wish.count} ranks, each with its part of every batch")
        return run_ranks(ranks, say)


def by_mpirun(job: Job, script: Script, found: Distribution, arguments: SimpleNamespace) -> NoReturn:
    """Ranks of this machine that speak MPI. Raises UsageError if so many do not fit, or if there is no
    mpirun.
    """
    from ..launch.chosen import mpi_engine
    from ..launch.engines.catalog import ENGINES
    from .engine_job import job_of
    from .run import PARAMETERS

    engine = mpi_engine(job.machine, arguments.nproc_per_node)
    asked = SimpleNamespace(**{**vars(arguments), "engine": engine})
    (made,) = ENGINES[engine].render(job_of(script, asked, PARAMETERS)).starts
    say(f"{arguments.nproc_per_node} ranks by mpirun ({found.sign})")
    become([*made.argv], {**os.environ, **made.environment, _SAID: "1"})


def as_launched(
    job: Job,
    script: Script,
    found: Distribution,
    arguments: SimpleNamespace,
    launched: LaunchedRank,
    told: Launched | None,
) -> NoReturn:
    """A rank that another launcher started: ``launched``; ``told`` by our engine, if one used that launcher.

    Raises UsageError if the other hosts would not reach it, or its host has too few CPUs.
    """
    from ..launch.chosen import as_one_of_its_host
    from ..launch.told_rank import network_of

    environment = {**os.environ, **launched.variables(os.environ)}
    if told is not None:
        environment |= network_of(launched, environment)
        job, cpus, threads = as_one_of_its_host(job, launched.local_rank, launched.local_size, environment)
        environment |= threads
        if cpus:
            os.sched_setaffinity(0, cpus)
    elif launched.size > 1 and launched.rank == 0 and not found.kind:
        say(
            f"the script is not distributed, so each of {launched.launcher}'s {launched.size} ranks "
            f"trains all of it; one training is shared by: hasten run --nproc-per-node {launched.size}"
        )
    patience = 0.0 if told is None else told.group_timeout_seconds
    alone(job, script, found, arguments.backend or "", environment, patience)


def alone(
    job: Job,
    script: Script,
    found: Distribution,
    instead: str,
    environment: Mapping[str, str] | None = None,
    patience_seconds: float = 0.0,
) -> NoReturn:
    """This process becomes the script's. ``patience_seconds``: how long a rank waits for the others."""
    from ..inside.job import OwnGroup
    from ..launch.launched_rank import launched_rank
    from ..launch.one_process import render

    if environment is None:
        launched = launched_rank(os.environ)
        environment = {**os.environ, **(launched.variables(os.environ) if launched is not None else {})}
    environment = {name: value for name, value in environment.items() if name != _SAID}
    named = found.kind and (instead or _OWN_NAMES & set(found.backends) or job.plan)
    if named or patience_seconds:
        job = replace(job, own_group=OwnGroup(instead, timeout_seconds=patience_seconds))
    if not (job.plan or job.tuning or job.checkpoints or script.is_notebook) and job.own_group is None:
        become([sys.executable, *(["-m"] if script.module else []), *script.argv], environment)
    become(*render(job, environment))


def as_the_script_asks(job: Job, found: Distribution, count: int, instead: str) -> int:
    """N ranks that know of each other by themselves."""
    from ..launch.chosen import OwnRanks, ranks_of_their_own
    from ..launch.ranks import run_ranks

    ranks = ranks_of_their_own(job, OwnRanks(count, found, instead), os.environ)
    if "threads" in job.plan.techniques and "threads" not in ranks[-1].job.plan.techniques:
        say("threads is left out: it was measured for one process, and each rank has fewer cores")
    if count == 1:
        from ..launch.one_process import render

        become(*render(ranks[0].job, ranks[0].environment))
    say_of_shared_memory(count)
    why = f" ({found.sign})" if found.sign else ""
    say(
        f"{count} ranks as under torchrun{why}: the script divides the work. If it gives each rank whole "
        f"batches, a step trains on {count} times as many samples as in one process"
    )
    return run_ranks(ranks, say, all_speak=True)


def say_of_shared_memory(count: int) -> None:
    """Warn, before ``count`` ranks are started, where /dev/shm has too little for them."""
    from ..launch.chosen import little_shared_memory
    from ..machine.memory import shared_left_bytes

    remark = little_shared_memory(count, shared_left_bytes())
    if remark:
        say(remark)


def become(argv: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process, so that signals, terminal and exit code are the script's."""
    from ..launch.programs import path_of

    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(path_of(argv[0]), argv, environment)


def say(text: str) -> None:
    """Once for all ranks of a launcher."""
    from ..launch.launched_rank import launched_rank

    launched = launched_rank(os.environ)
    if _SAID not in os.environ and (launched is None or launched.rank == 0):
        saying.say(f"hasten: {text}")
