"""What several verbs share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..errors import Refusal, UsageError
from ..saying import say
from ..units import seconds_words

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.stage import Stage
    from ..plans.files import SavedPlan
    from ..records.diagnosis import Distribution
    from ..scripts.workspace import Script


def script_of(arguments: SimpleNamespace) -> Script:
    """The script that was named. Raises UsageError if there is none."""
    from ..scripts.workspace import find_module, find_script

    if arguments.module is not None:
        return find_module(arguments.module, arguments.arguments)
    if not arguments.script:
        raise UsageError("no script is named: name the Python script that trains")
    return find_script(arguments.script, arguments.arguments)


def stage_of(script: Script, found: Distribution, arguments: SimpleNamespace) -> Stage:
    """The stage on which the script is watched, as --allow-writes, --json, --nproc-per-node
    and --backend say. ``found``: how the script trains in several processes, read from its source.

    Raises UsageError if the script, or this machine, cannot have this many ranks.
    """
    from ..bench.stage import Stage
    from ..launch.chosen import own_ranks_of
    from ..machine import this_machine

    machine = this_machine()
    return Stage(
        argv=script.argv,
        machine=machine,
        environment=dict(os.environ),
        folders=script.folders,
        module=script.module is not None,
        protect=not arguments.allow_writes,
        stdout_to_stderr=arguments.json == "-",
        own_ranks=own_ranks_of(script, found, machine, arguments.nproc_per_node, arguments.backend or ""),
    )


def plan_asked_for(arguments: SimpleNamespace, script: Script) -> SavedPlan:
    """The plan that --plan, --use and --without name, else the script's own; empty if there is none."""
    from ..plans.files import changed
    from ..plans.own import own_plan
    from ..scripts.workspace import Workspace

    if arguments.plan or arguments.use:
        return named_plan(arguments)
    saved, remark = own_plan(Workspace(script))
    if remark:
        say(f"hasten: {remark}")
    return changed(saved, (), arguments.without) if saved is not None else named_plan(arguments)


def named_plan(arguments: SimpleNamespace) -> SavedPlan:
    """The plan of --plan, else the empty one, as --use and --without change it."""
    from ..plans.files import SavedPlan, changed, read_plan
    from ..records.plan import BASELINE

    saved = read_plan(Path(arguments.plan)) if arguments.plan else SavedPlan(BASELINE)
    return changed(saved, arguments.use, arguments.without)


def console_for(json_target: str | None) -> Console:
    """Where reports go: standard output, unless the JSON takes it."""
    from ..report.console import open_console

    return open_console(sys.stderr if json_target == "-" else sys.stdout)


def say_how_long_it_takes(step_seconds: float, seconds: float) -> None:
    """To watch some steps: the script may say nothing meanwhile."""
    say(f"hasten: a step takes {seconds_words(step_seconds)}: watching takes about {seconds_words(seconds)}")


def require_folder() -> None:
    """Raises UsageError if the working directory is gone."""
    try:
        os.getcwd()
    except OSError:
        raise UsageError("the working directory was deleted: change into one that exists") from None


def require_platform() -> None:
    """Raises Refusal on Windows, the only system where hasten does not work."""
    if sys.platform == "win32":
        raise Refusal("hasten does not run on Windows itself; it runs in WSL2, where the same commands work")
