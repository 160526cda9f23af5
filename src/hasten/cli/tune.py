"""``hasten tune SCRIPT``: try what may help, measure it, write a plan."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from ..saying import say
from .common import console_for, require_platform, script_of
from .options import ALLOW_WRITES, JSON, ONLY, QUIET, WAIT, OneOf, ranks, script
from .values import MOST_SEED, ShareOfRun, seconds_or_share, whole_number

if TYPE_CHECKING:
    from ..scripts.workspace import Script

NAME = "tune"
HELP = "find the plan under which a script trains fastest here, with accuracy held"
DEFAULT_BUDGET = 200.0
DEFAULT_MOST = 600.0  # that it grows to: tuning/dividing.py
NOT_CHECKED = 6  # the exit code if something was faster, and accuracy could not be checked
PARAMETERS = (
    click.Option(
        ["--budget"],
        type=seconds_or_share,
        default=None,
        metavar="SECONDS|N%",
        help="time to spend, guard and confirmation included: seconds, or a part of the training, as 5% "
        "(where an earlier tune saw its end, or its loops say how long it is) or '5% of 2h' "
        f"(default {DEFAULT_BUDGET:.0f}; up to {DEFAULT_MOST:.0f} if an honest answer takes longer, or "
        "nothing was found yet; less than half of "
        "what a tune took that found a gain for the same training within the last day)",
    ),
    click.Option(
        ["--risk"],
        type=OneOf(("exact", "draws", "close", "training")),
        default="close",
        help="what a technique may change: only rounding; which random numbers are drawn; the precision; "
        "the training itself (default close)",
    ),
    ONLY,
    click.Option(
        ["--seed"],
        type=whole_number(0, MOST_SEED),
        default=0,
        metavar="SEED",
        help="seed for the guard's paired runs, 0 to 2**63 - 1 (default 0)",
    ),
    click.Option(
        ["--fresh"],
        is_flag=True,
        help="measure everything again; otherwise the search starts from what tunes of the last day measured "
        "for the same script, arguments, local modules, machine and versions",
    ),
    *ranks("tune"),
    QUIET,
    WAIT,
    ALLOW_WRITES,
    JSON,
    *script(),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..errors import OutputLost, Refusal
    from ..plans.files import check_names
    from ..report.machine_readable import refusal_json, tune_json, write_json
    from ..report.progress import progress_for
    from ..report.terminal import print_tune
    from ..scripts.workspace import Workspace
    from ..tuning.pipeline import tune
    from ..tuning.request import TuneRequest

    require_platform()
    check_names("--only", arguments.only)
    script = script_of(arguments)
    asked = arguments.budget is not None
    known = budget_seconds(arguments.budget, script) if asked else DEFAULT_BUDGET
    budget = DEFAULT_BUDGET if known is None else known
    request = TuneRequest(
        script=script,
        environment=dict(os.environ),
        budget=budget,
        risk=arguments.risk,
        seed=arguments.seed,
        allow_writes=arguments.allow_writes,
        nproc=arguments.nproc_per_node,
        backend=arguments.backend or "",
        wait=arguments.wait,
        only=frozenset(arguments.only),
        fresh=arguments.fresh,
        budget_most=0.0 if asked else DEFAULT_MOST,
        share_of_run=arguments.budget.share if known is None else None,
    )
    try:
        with progress_for(budget, arguments.quiet, arguments.debug) as progress:
            result = tune(request, progress)
    except Refusal as refusal:
        if arguments.json is not None:
            write_json(refusal_json(str(refusal)), arguments.json)
        raise
    if arguments.json is not None:
        write_json(tune_json(result), arguments.json)
    plan_path = Workspace(script).plan_path
    try:
        print_tune(result, console_for(arguments.json), script.command, plan_path)
    except OutputLost as lost:
        raise OutputLost(f"{lost}; the plan is in {plan_path}" if result.plan else str(lost)) from None
    if result.outcome != "not-checked":
        return 0
    if left := best_so_far(script, _rank_options(arguments)):
        say(f"hasten: {left}")
    return NOT_CHECKED


def budget_seconds(budget: float | ShareOfRun, script: Script) -> float | None:
    """The budget in seconds; None if it is a part of a training whose length is still to be found out."""
    from ..tuning.known_here import run_seconds
    from ..units import seconds_words

    if not isinstance(budget, ShareOfRun):
        return budget
    length = budget.seconds if budget.seconds is not None else run_seconds(script)
    if length is None:
        say(
            f"hasten: {script.label} is watched first: the budget is {budget} of a run, if its loops say how "
            "long that is"
        )
        return None
    seconds = budget.share * length
    say(f"hasten: the budget is {seconds_words(seconds)}, {budget} of {seconds_words(length)}")
    return seconds


def kept(arguments: SimpleNamespace) -> str:
    """What an interrupted tune leaves. Raises nothing: the interruption may have come early."""
    from ..errors import HastenError

    found = ""
    with suppress(HastenError, OSError):
        found = best_so_far(script_of(arguments), _rank_options(arguments))
    go_on = "To resume and confirm it, repeat the same command"
    return f"finished trials are in the journal{f'. {found}. {go_on}' if found else ''}"


def best_so_far(script: Script, rank_options: str = "") -> str:
    """The best unconfirmed plan, and what to do with it; "" for none. ``rank_options``: as in
    ``TuneResult``.
    """
    from ..plans import unconfirmed
    from ..scripts.workspace import Workspace

    workspace = Workspace(script)
    saved = unconfirmed.kept(workspace)
    if saved is None:
        return ""
    path = workspace.unconfirmed_path
    caveat = unconfirmed.caveat(saved)
    return (
        f"The best plan so far ({saved.plan.label}) is in {path}, {caveat}. "
        f"Train under it: {_run_words(script, rank_options, path)}"
    )


def _run_words(script: Script, rank_options: str, path: Path) -> str:
    """The command that trains under the plan at ``path``."""
    return f"hasten run {rank_options}--plan {shlex.quote(str(path))} {script.command}"


def _rank_options(arguments: SimpleNamespace) -> str:
    if arguments.nproc_per_node is None:
        return ""
    backend = f"--backend {arguments.backend} " if arguments.backend else ""
    return f"--nproc-per-node {arguments.nproc_per_node} {backend}"
