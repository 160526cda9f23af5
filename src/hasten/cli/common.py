"""What several verbs share."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from ..errors import Refusal, UsageError
from ..report.console import Outlet
from ..saying import say
from .values import MOST_PROCESSES, file_name, whole_number

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.stage import Stage
    from ..scripts.workspace import Script


BACKENDS = ("gloo", "shm", "mpi", "ccl")
"""Those that may stand in for the one that a script names."""


class VerbParser(argparse.ArgumentParser):
    """Lets an option that takes the rest of the line (-m) take a "--" and what follows it, too, and writes as
    all of hasten does.
    """

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help may be lost as any result may; what is wrong with a word may quote that word."""
        if file is sys.stdout:
            Outlet(sys.stdout).write(message)
        else:
            say(message.rstrip("\n"), lines=True)

    def _get_nargs_pattern(self, action: argparse.Action) -> str:
        if action.nargs == argparse.REMAINDER:
            return "([-AO]*)"
        return super()._get_nargs_pattern(action)


def add_script(parser: argparse.ArgumentParser, required: bool = True) -> None:
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        action=_ModuleAndArguments,
        help="run a module as python -m does: its name, and then its own arguments",
    )
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs=argparse.PARSER if required else argparse.REMAINDER,
        action=_ScriptAndArguments,
        help="the Python script or notebook that trains, and its own arguments, passed on as they are",
    )


class _ScriptAndArguments(argparse.Action):
    """Takes the script and all that follows. As two arguments argparse would take a "--" from the
    script's.
    """

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, *_: object) -> None:
        assert isinstance(values, list)
        words = values[1:] if values[:1] == ["--"] else values
        if words:
            namespace.script, namespace.arguments = words[0], words[1:]


class _ModuleAndArguments(argparse.Action):
    """Takes the module's name and all that follows; then no script is needed."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, *_: object
    ) -> None:
        assert isinstance(values, list)
        if not values:
            parser.error("argument -m: expected a module's name")
        namespace.module, namespace.arguments = values[0], values[1:]
        for action in parser._actions:
            if action.dest == "script":
                action.required = False


def script_of(arguments: argparse.Namespace) -> Script:
    """The script that was named. Raises UsageError where there is none."""
    from ..scripts.workspace import find_module, find_script

    if arguments.module is not None:
        return find_module(arguments.module, arguments.arguments)
    if not arguments.script:
        raise UsageError("no script is named: name the Python script that trains")
    return find_script(arguments.script, arguments.arguments)


def stage_of(script: Script, arguments: argparse.Namespace) -> Stage:
    """Where the script is watched, its output shown, as --allow-writes, --json and ``add_ranks`` say.

    Raises UsageError where the script, or this machine, is not for so many ranks.
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
        own_ranks=own_ranks_of(script, arguments.nproc_per_node, arguments.backend or "", machine),
    )


def add_ranks(parser: argparse.ArgumentParser, do: str) -> None:
    """``do``: what is done with so many processes: "tune"."""
    parser.add_argument(
        "--nproc-per-node",
        metavar="N",
        type=whole_number(1, MOST_PROCESSES),
        help=f"for a script that is distributed itself: {do} it in N processes on this machine",
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, help="stands in for the backend that such a script names, on CPUs"
    )


def add_techniques(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--use",
        metavar="NAME[:KEY=VALUE,...]",
        action="append",
        default=[],
        help="train under this technique (repeatable); without --plan, under nothing else",
    )
    parser.add_argument(
        "--without",
        metavar="NAME",
        action="append",
        default=[],
        help="take this technique out of the plan (repeatable)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=file_name,
        help="also write the result as JSON; - is standard output",
    )


def add_allow_writes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="measure even where the script cannot be kept from writing its files (checkpoints, logs)",
    )


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        action="store_true",
        help="where another hasten is measuring in this folder, wait for its end instead of stopping",
    )


def console_for(json_target: str | None) -> Console:
    """Where reports go: standard output, unless the JSON takes it."""
    from ..report.console import open_console

    return open_console(sys.stderr if json_target == "-" else sys.stdout)


def require_folder() -> None:
    """Raises UsageError where the working directory is gone."""
    try:
        os.getcwd()
    except OSError:
        raise UsageError("the working directory was deleted: change into one that is there") from None


def require_platform() -> None:
    """Raises Refusal on Windows, the one place where hasten does not work."""
    if sys.platform == "win32":
        raise Refusal("hasten does not run on Windows itself; it runs in WSL2, where the same commands work")
