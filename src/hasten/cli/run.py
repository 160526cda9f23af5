"""``hasten run SCRIPT``: train to the end under the script's plan. The process becomes the script's own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from .common import named_plan, require_platform, script_of
from .engine_options import ENGINE_OPTIONS
from .options import TECHNIQUES, OneOf, backend, files, nproc_per_node, script
from .run_checkpoint import OPTIONS as CHECKPOINTS
from .run_checkpoint import checkpoints_of, hashing_as_before, part_that_restarts
from .run_tune import tuning_of
from .starting import say, start
from .values import file_name, steps_or_minutes

if TYPE_CHECKING:
    from ..plans.files import SavedPlan
    from ..records.diagnosis import Distribution
    from ..records.plan import Plan
    from ..records.run_pace import TunedPace
    from ..scripts.workspace import Script

NAME = "run"
HELP = "train to the end under the plan that tune wrote"


def _one_of_both(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    given = [name for name in ("plan", "no_plan") if context.params.get(name)]
    if value and given:
        raise click.BadParameter(f"not allowed with argument --{given[0].replace('_', '-')}")
    return value


PARAMETERS = (
    click.Option(
        ["--plan"],
        metavar="FILE",
        type=file_name,
        help="a plan other than .hasten/NAME/plan.toml",
        callback=_one_of_both,
        shell_complete=files,
    ),
    click.Option(["--no-plan"], is_flag=True, help="train without hasten's help", callback=_one_of_both),
    *TECHNIQUES,
    click.Option(
        ["--strict"],
        is_flag=True,
        help="stop if the plan was made for something else or does not apply",
    ),
    click.Option(
        ["--tune"],
        is_flag=True,
        help="in this training's first steps, try techniques that change nothing but rounding, and those "
        "that the guard has passed here, and go on with what is faster",
    ),
    click.Option(
        ["--retune-every"],
        type=steps_or_minutes,
        metavar="N|Nmin",
        help="try again after so many steps, or minutes (30min), and drop what no longer gains",
    ),
    *CHECKPOINTS,
    nproc_per_node("train in N processes on this machine, or on each host, each with its share of the cores"),
    click.Option(
        ["--ranks"],
        type=OneOf(("ours", "script")),
        help="whether hasten divides the training among processes, or the script itself does, as under "
        "torchrun (default: read from the script)",
    ),
    backend("use this instead of the backend that the script names, on CPUs"),
    click.Option(
        ["--preflight"],
        is_flag=True,
        help="check that all hosts of a launcher are there and alike, measure their links, and end",
    ),
    *ENGINE_OPTIONS,
    *script(),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..errors import UsageError
    from ..inside.job import Job
    from ..launch.told_rank import take
    from ..machine import this_machine
    from ..plans.fitting import fit
    from ..plans.unconfirmed import caveat
    from ..records.run_pace import WatchedRun
    from ..scripts.distribution import distribution_of
    from .launching import by_engine, launch

    require_platform()
    launched = take(os.environ)
    script = script_of(arguments)
    if by_engine(arguments):
        return launch(script, distribution_of(script), arguments, PARAMETERS)
    machine = this_machine()
    saved, source = _plan(arguments, script)
    plan, remarks = fit(saved, script, machine, arguments.nproc_per_node)
    plan, left_out = part_that_restarts(arguments, plan)
    remarks = [*remarks, *left_out]
    for remark in remarks:
        say(remark)
    if remarks and arguments.strict:
        raise UsageError("stopping before the script starts, as --strict asks")
    distribution = distribution_of(script)
    if caveat(saved):
        say(f"the plan in {source} is {caveat(saved)}")
    if plan:
        say(f"training under {source}: {plan.label}")
        for line in _about_quality(plan, arguments, script, distribution):
            say(line)
    elif source:
        say(f"the plan in {source} is empty: the script runs unchanged")
    checkpoints = checkpoints_of(arguments, script, distribution, plan)
    if checkpoints is not None:
        hashing_as_before(checkpoints)
    tuning = tuning_of(arguments, script, machine, distribution, plan)
    job = Job(
        argv=script.argv,
        machine=machine,
        module=script.module is not None,
        plan=plan,
        strict=arguments.strict,
        samples=_sample_folder(script) if "sample_store" in plan.techniques else "",
        watched=WatchedRun(_pace(saved, arguments, script, remarks)) if plan or tuning else None,
        tuning=tuning,
        checkpoints=checkpoints,
    )
    return start(job, script, distribution, arguments, launched)


def _plan(arguments: SimpleNamespace, script: Script) -> tuple[SavedPlan, str]:
    """The requested plan, and where it comes from."""
    from ..errors import UsageError
    from ..plans import unconfirmed
    from ..plans.files import changed
    from ..plans.own import own_plan
    from ..scripts.workspace import Workspace

    if arguments.no_plan and (arguments.tune or arguments.retune_every):
        raise UsageError("--no-plan trains as without hasten: leave out --tune and --retune-every")
    if arguments.no_plan and (arguments.use or arguments.without):
        raise UsageError("--no-plan trains without any technique: leave out --use and --without")
    named = named_plan(arguments)
    if arguments.no_plan or arguments.plan:
        return named, arguments.plan or ""
    if arguments.use:
        return named, "the techniques named by --use"
    workspace = Workspace(script)
    saved, remark = own_plan(workspace)
    if saved is not None:
        return changed(saved, arguments.use, arguments.without), str(workspace.plan_path)
    if remark:
        say(remark)
    left = unconfirmed.kept(workspace)
    if left is not None:
        path = workspace.unconfirmed_path
        say(
            f"the plan in {path} is not used, because it is {unconfirmed.caveat(left)}. To train under it "
            f"anyway: hasten run --plan {path} {script.label}"
        )
    if arguments.strict:
        raise UsageError(f"there is no plan for {script.label}. Make one with: hasten tune {script.label}")
    if arguments.nproc_per_node is None and not arguments.tune:
        say(
            f"no plan for {script.label} yet, so it runs unchanged; make one with: hasten tune {script.label}"
        )
    return named, ""


def _pace(
    saved: SavedPlan, arguments: SimpleNamespace, script: Script, remarks: Sequence[str]
) -> TunedPace | None:
    """Step time in the tune; None if this run differs in plan, script, machine or
    number of processes, or in its arguments.
    """
    from ..launch.launched_rank import launched_rank
    from ..plans.pace import pace_of

    made_for, launched = saved.made_for, launched_rank(os.environ)
    elsewhere = remarks or (launched is not None and launched.size > 1)
    changed = arguments.use or arguments.without or made_for.get("arguments") != list(script.arguments)
    if elsewhere or changed or made_for.get("nproc_per_node") != arguments.nproc_per_node:
        return None
    return pace_of(saved)


def _sample_folder(script: Script) -> str:
    """Where samples are kept for later runs; "" if impossible."""
    from ..errors import UnsafeFile, UsageError
    from ..plans.own import prepare
    from ..safe_files import make_folder
    from ..scripts.workspace import Workspace

    workspace = Workspace(script)
    try:
        prepare(workspace)
        make_folder(workspace.folder / "samples")
    except (OSError, UnsafeFile, UsageError) as error:
        say(f"samples are not kept for later runs: {error}")
        return ""
    return str((workspace.folder / "samples").absolute())


def _about_quality(
    plan: Plan, arguments: SimpleNamespace, script: Script, distribution: Distribution
) -> list[str]:
    """The message if the plan changes the training itself, with the command that judges it."""
    from ..inside.techniques.catalog import changing

    changed = changing(plan).techniques
    if not changed:
        return []
    options = ["--plan", arguments.plan] if arguments.plan else []
    options += [word for text in arguments.use for word in ("--use", text)]
    options += [word for name in arguments.without for word in ("--without", name)]
    if arguments.nproc_per_node is not None and distribution.kind == "ranks":
        options += ["--nproc-per-node", str(arguments.nproc_per_node)]
        options += ["--backend", arguments.backend] if arguments.backend else []
    words = [*map(shlex.quote, options), script.label, *map(shlex.quote, script.arguments)]
    return [
        f"{', '.join(changed)} changes the training itself. To check that the model is as good: "
        f"hasten verify {' '.join(words)}"
    ]
