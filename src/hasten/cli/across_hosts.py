"""Ranks of another launcher, on one host or several, train a script that knows of no ranks as one."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .. import saying
from ..errors import UsageError
from ..records.launch_job import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..inside.job import Job
    from ..launch.keeper import Failure
    from ..launch.launched_rank import LaunchedRank
    from ..launch.ranks_of_plan import Wish
    from ..launch.world import World
    from ..records.diagnosis import Distribution
    from ..records.launch_job import Launched
    from ..scripts.workspace import Script


def start_across_hosts(
    job: Job, script: Script, found: Distribution, arguments: SimpleNamespace, told: Launched | None
) -> int | None:
    """The exit code, if this process is one of a launcher's ranks that train the script as one, or if only a
    check of the hosts was asked for. None if the script is to train by itself. ``told``: by our engine, if
    one used that launcher.
    """
    from ..launch.launched_rank import launched_rank
    from ..launch.split_worlds import faults_of_world

    launched = launched_rank(os.environ)
    if launched is None or launched.size == 1:
        faults = faults_of_world(os.environ, 1) if launched is not None else []
        if arguments.preflight:
            return _look_at_this_host(job, script, launched)
        for fault in faults if arguments.ranks != "script" else ():
            saying.say(f"hasten: {fault.text}. {fault.advice}")
        return None
    ours = shares(launched, found, arguments)
    if not ours and not arguments.preflight:
        return None
    patience = PATIENCE_SECONDS if told is None else told.group_timeout_seconds
    return _in_world(job, script, launched, arguments.preflight, patience)


def shares(launched: LaunchedRank, found: Distribution, arguments: SimpleNamespace) -> bool:
    """Whether a launcher's ranks train such a script as one. If the launcher does not say where rank 0 is,
    they do so only if asked to. Raises UsageError if that is impossible.
    """
    if found.kind or arguments.ranks is not None:
        return bool(arguments.ranks == "ours")
    told = bool(os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"))
    if not told and launched.local_size < launched.size:
        raise UsageError(
            f"the script knows of no ranks, and each of {launched.launcher}'s {launched.size} would train "
            "all of it: set MASTER_ADDR and MASTER_PORT on all hosts, so that they find each other, or let "
            "each train by itself with --ranks script"
        )
    return told


def _in_world(
    job: Job, script: Script, launched: LaunchedRank, only_look: bool, patience_seconds: float
) -> int:
    """The exit code. ``job``: its plan says how each host's processes are laid out; the launcher decides how
    many there are. ``patience_seconds``: for which ranks wait for each other.
    """
    from .. import __version__
    from ..errors import Refusal
    from ..launch.host_facts import facts_of
    from ..launch.unranked import without_ranks
    from ..launch.world import ElsewhereFailed, World
    from ..records.codec import to_json

    environment = dict(os.environ)
    for name in set(environment) - set(without_ranks(environment)):
        del os.environ[name]  # none of the processes that we start is to take itself for that rank
    leads = True
    try:
        with World(launched, environment, to_json(facts_of(job, script, os.environ, __version__))) as world:
            leads = world.leads
            if leads:
                ready = _looked(world, script, environment, only_look)
                if only_look:
                    code = 0 if ready else UsageError.exit_code
                else:
                    code = _led(job, script, world, patience_seconds)
                    if code:
                        return code  # the others have been told
                world.ended(code)
            return world.wait_for_end()
    except (Refusal, _NotAlike) as error:
        if launched.rank == 0:
            raise
        return error.exit_code  # rank 0's process prints the same
    except ElsewhereFailed as error:
        if leads:
            raise
        return error.exit_code  # the process that leads this host prints it


class _NotAlike(UsageError):
    """The hosts cannot train together as they are."""


def _looked(world: World, script: Script, environment: Mapping[str, str], alone: bool) -> bool:
    """Check all hosts and print the result; whether they can train together. ``alone``: no training follows,
    so all of it is printed. Raises _NotAlike if a training was to follow, and cannot.
    """
    from ..launch.preflight import preflight
    from ..launch.split_worlds import faults_of_world
    from ..report.preflight import in_words, lines_of, summary

    if len(world.by_host) == 1 and not alone:
        for fault in faults_of_world(environment, 1):
            _say_for_all(world)(in_words(fault))
        return True
    another = _another_world(script, world.names, world.launched) if alone else ""
    found = preflight(world, environment, another)
    if alone:
        if world.here == 0:
            saying.say("\n".join(lines_of(found)), lines=True, stream=sys.stdout)
        return found.ready
    if not found.ready:
        raise _NotAlike("; ".join(in_words(fault) for fault in found.faults if fault.stops))
    say = _say_for_all(world)
    for line in (*(in_words(fault) for fault in found.faults), summary(found)):
        say(line)
    return True


def _another_world(script: Script, hosts: Sequence[str], launched: LaunchedRank) -> str:
    """Another world for the same command, on hosts that share this folder, in words; "" if none is seen."""
    from ..launch.split_worlds import another_world
    from ..scripts.workspace import Workspace

    return another_world(Workspace(script).folder, hosts, " ".join((launched.job, *script.argv)))


def _look_at_this_host(job: Job, script: Script, launched: LaunchedRank | None) -> int:
    """There are no others: what is here, and whether there should be others."""
    import socket

    from .. import __version__
    from ..launch.host_facts import facts_of
    from ..launch.preflight import of_one_host
    from ..report.preflight import lines_of

    name, facts = socket.gethostname(), facts_of(job, script, os.environ, __version__)
    another = _another_world(script, [name], launched) if launched is not None else ""
    found = of_one_host(name, facts, os.environ, another)
    saying.say("\n".join(lines_of(found)), lines=True, stream=sys.stdout)
    return 0 if found.ready else UsageError.exit_code


def _led(job: Job, script: Script, world: World, patience_seconds: float) -> int:
    """Start the ranks of this host, and wait for their end."""
    import secrets

    from ..launch.chosen import check_wish, ranks_of_ours
    from ..launch.ranks import Elsewhere, run_ranks
    from .rehearsed_ranks import rehearsed
    from .starting import say_of_shared_memory

    job, wish = _as_planned(_on_this_host(job, world), world)
    check_wish(wish, job.machine)
    _read_nothing()
    say = _say_for_all(world)
    seed = world.share(secrets.randbits(31) if job.seed is None else job.seed)[0]
    with rehearsed(job, script, wish, say, world) as ready:
        say(_ranks_of(world))
        hosts = world.launch()
        ranks = ranks_of_ours(
            replace(job, seed=seed), wish, os.environ, ready.found, ready.place, hosts, patience_seconds
        )
        theirs = ready.protected(ranks)
        if hosts.here == 0:
            theirs[0] = ranks[0]
        say_of_shared_memory(wish.count)
        here = Elsewhere(
            hosts.ranks[hosts.here], world.size, world.names[world.here], world.follow,
            lambda seconds: _why(world.await_cause(seconds)), world.fail,
        )  # fmt: skip
        code = run_ranks(theirs, lambda text: saying.say(f"hasten: {text}"), elsewhere=here)
    if code:
        world.fail(f"the ranks of host {world.names[world.here]} ended with exit code {code}", code)
    return code


def _why(failure: Failure | None) -> tuple[str, int] | None:
    return None if failure is None else (failure.why, failure.code)


def _on_this_host(job: Job, world: World) -> Job:
    """The job with all CPUs that the launcher gave its processes here: some launchers bind each to a few."""
    from ..machine import this_machine

    given = {cpu for seat in world.by_host[world.here] for cpu in seat.cpus}
    if not given or given == os.sched_getaffinity(0):
        return job
    try:
        os.sched_setaffinity(0, given)
    except OSError:  # a control group holds this process to its own
        return job
    return replace(job, machine=this_machine())


def _as_planned(job: Job, world: World) -> tuple[Job, Wish]:
    """What the plan says of processes, for as many as the launcher has started here. Raises UsageError."""
    from ..launch.ranks_of_plan import wish_of
    from .starting import in_several

    job = in_several(job, len(world.by_host[world.here]), None)
    wish = wish_of(job.plan)
    assert wish is not None
    if wish.backend in ("mpi4py", "ccl"):
        raise UsageError(
            f"processes:backend={wish.backend} is for ranks that hasten starts itself on one machine: leave "
            "it out, or take gloo"
        )
    return job, wish


def _read_nothing() -> None:
    """A launcher gives its own standard input to some ranks and not to others: all read nothing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _say_for_all(world: World) -> Callable[[str], None]:
    """Says it once, for all hosts."""

    def say(text: str) -> None:
        if world.here == 0:
            saying.say(f"hasten: {text}")

    return say


def _ranks_of(world: World) -> str:
    many = [len(host) for host in world.by_host]
    each = ", ".join(f"{name}: {count}" for name, count in zip(world.names, many, strict=True))
    where = f" on {len(many)} hosts ({each})" if len(many) > 1 else ""
    return f"{world.size} ranks{where}, each with its part of every batch"
