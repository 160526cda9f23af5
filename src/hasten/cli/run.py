"""``hasten run SCRIPT``: train to the end under the script's plan. The process becomes the script's own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .common import add_script, require_platform

NAME = "run"
HELP = "train to the end under the plan that tune wrote"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--plan", metavar="FILE", help="a plan elsewhere than in .hasten/NAME/plan.toml")
    which.add_argument("--no-plan", action="store_true", help="train as without hasten")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="stop where the plan was made for something else or does not apply",
    )
    add_script(parser)


def execute(arguments: argparse.Namespace) -> int:
    from ..errors import UsageError
    from ..fitting import fit
    from ..inside.job import Job
    from ..launch.local import render
    from ..machine import this_machine
    from ..plan_file import read_plan
    from ..workspace import Workspace, find_script

    require_platform()
    script = find_script(arguments.script, arguments.arguments)
    path = Path(arguments.plan) if arguments.plan else Workspace(script).plan_path
    if arguments.no_plan:
        become([sys.executable, *script.argv], dict(os.environ))
    if arguments.plan is None and not path.exists():
        if arguments.strict:
            raise UsageError(f"there is no plan for {script.path}. Make one with: hasten tune {script.path}")
        say(f"no plan for {script.path} yet, so it runs unchanged; make one with: hasten tune {script.path}")
        become([sys.executable, *script.argv], dict(os.environ))
    machine = this_machine()
    plan, remarks = fit(read_plan(path), script, machine)
    for remark in remarks:
        say(remark)
    if remarks and arguments.strict:
        raise UsageError("stopping before the script starts, as --strict asks")
    if not plan:
        say(f"the plan in {path} is empty: the script runs unchanged")
        become([sys.executable, *script.argv], dict(os.environ))
    say(f"training under {path}: {plan.label}")
    job = Job(argv=script.argv, machine=machine, plan=plan, strict=arguments.strict)
    become(*render(job, os.environ))
    return 0


def become(argv: list[str], environment: dict[str, str]) -> None:
    """Replace this process, so that signals, terminal and exit code are the script's. Does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)


def say(text: str) -> None:
    print(f"hasten: {text}", file=sys.stderr, flush=True)
