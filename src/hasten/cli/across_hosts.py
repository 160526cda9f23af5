"""Ranks that another launcher started, on one host or several, train a script that knows of none as one."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .. import saying

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..inside.job import Job
    from ..launch.company import Company
    from ..launch.keeper import Failure
    from ..launch.launched_rank import LaunchedRank
    from ..launch.together import Wish
    from ..records.diagnosis import Distribution
    from ..records.ranks import Findings
    from ..scripts.workspace import Script


def shares(launched: LaunchedRank | None, found: Distribution, arguments: SimpleNamespace) -> bool:
    """Whether a launcher's ranks train such a script as one. Where the launcher does not tell where rank 0
    is, they do so only if they are asked to. Raises UsageError where that cannot be.
    """
    from ..errors import UsageError

    if launched is None or launched.size == 1 or arguments.ranks == "script":
        return False
    if arguments.ranks == "ours":
        if found.kind:
            raise UsageError(
                f"{found.sign} makes the script one of several ranks by itself, and --ranks ours is for "
                "those that know of none: leave it out"
            )
        return True
    return not found.kind and bool(os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"))


def across_hosts(job: Job, script: Script, launched: LaunchedRank) -> int:
    """The exit code. ``job``: its plan says what each host's processes are like; how many there are is the
    launcher's to say.
    """
    from ..errors import Refusal
    from ..launch.company import Company
    from ..launch.unranked import without_ranks

    environment = dict(os.environ)
    for name in set(environment) - set(without_ranks(environment)):
        del os.environ[name]  # of what we start, nobody is a rank by these
    try:
        with Company(launched, environment, {}) as company:
            code = _led(job, script, company) if company.leads else 0
            if code == 0:
                company.wait_for_end()
            return code
    except Refusal as refusal:
        if launched.rank == 0:
            raise
        return refusal.exit_code  # rank 0's process says the same


def _led(job: Job, script: Script, company: Company) -> int:
    """Start the ranks of this host, and wait for their end."""
    import secrets

    from ..bench.stage import Stage
    from ..bench.trials import Trials
    from ..launch.chosen import check_wish, ranks_of_ours
    from ..launch.ranks import Elsewhere, run_ranks
    from ..launch.rendezvous import private_place
    from ..plans.own import prepare
    from ..scripts.sources import Sources
    from ..scripts.workspace import Workspace
    from ..tuning.rehearsing import findings_for
    from .starting import say_of_shared_memory

    job, wish = _as_planned(_on_this_host(job, company), company)
    check_wish(wish, job.machine)
    _read_nothing()
    workspace = Workspace(script)
    prepare(workspace)
    stage = Stage(
        argv=job.argv, module=job.module, machine=job.machine, environment=os.environ, folders=script.folders,
        company=company,
    )  # fmt: skip
    trials = Trials(stage, workspace.new_trial(), Sources(script, "rehearsed"))
    seed = company.share(secrets.randbits(31) if job.seed is None else job.seed)[0]
    with trials, private_place() as place:
        found = findings_for(script, wish, trials, _say_for_all(company))
        _tell(found, company)
        hosts = company.launch()
        ranks = ranks_of_ours(replace(job, seed=seed), wish, os.environ, found, place, hosts)
        sandbox = trials.sandbox
        if job.samples:
            sandbox = replace(sandbox, through=(*sandbox.through, job.samples))
        theirs = [replace(rank, job=replace(rank.job, sandbox=sandbox)) for rank in ranks]
        if hosts.here == 0:
            theirs[0] = ranks[0]
        say_of_shared_memory(wish.count)
        here = Elsewhere(
            hosts.ranks[hosts.here], company.size, company.names[company.here], company.follow,
            lambda seconds: _why(company.await_cause(seconds)), company.fail,
        )  # fmt: skip
        code = run_ranks(theirs, lambda text: saying.say(f"hasten: {text}"), elsewhere=here)
    if code == 0:
        company.ended()
    return code


def _why(failure: Failure | None) -> tuple[str, int] | None:
    return None if failure is None else (failure.why, failure.code)


def _on_this_host(job: Job, company: Company) -> Job:
    """With all CPUs that the launcher has given to its processes here; some launchers bind each to a few."""
    from ..machine import this_machine

    given = {cpu for seat in company.by_host[company.here] for cpu in seat.cpus}
    if not given or given == os.sched_getaffinity(0):
        return job
    try:
        os.sched_setaffinity(0, given)
    except OSError:  # a control group holds this process to its own
        return job
    return replace(job, machine=this_machine())


def _as_planned(job: Job, company: Company) -> tuple[Job, Wish]:
    """What the plan says of processes, for as many as the launcher has started here. Raises UsageError."""
    from ..errors import UsageError
    from ..launch.together import wish_of
    from .starting import in_several

    job = in_several(job, len(company.by_host[company.here]), None)
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


def _say_for_all(company: Company) -> Callable[[str], None]:
    """Says it once, for all hosts."""

    def say(text: str) -> None:
        if company.here == 0:
            saying.say(f"hasten: {text}")

    return say


def _tell(found: Findings, company: Company) -> None:
    say, many = _say_for_all(company), [len(host) for host in company.by_host]
    for remark in found.remarks:
        say(f"not as in one process: {remark}")
    say("compared with one process: the first steps, up to 400, and single ones of the later (on CPUs)")
    each = ", ".join(f"{name}: {count}" for name, count in zip(company.names, many, strict=True))
    say(f"{company.size} ranks on {len(many)} hosts ({each}), each with its part of every batch")
