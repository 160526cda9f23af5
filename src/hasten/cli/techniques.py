"""``hasten techniques [SCRIPT]``: what is there to try, and what of it applies here?"""

from __future__ import annotations

import argparse

from .common import (
    add_allow_writes,
    add_json,
    add_ranks,
    add_script,
    console_for,
    require_platform,
    script_of,
    stage_of,
)

NAME = "techniques"
HELP = "list the techniques, and say which apply to this machine and, if one is named, to a script"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_ranks(parser, "watch")
    add_allow_writes(parser)
    add_json(parser)
    add_script(parser, required=False)


def execute(arguments: argparse.Namespace) -> int:
    from ..errors import UsageError
    from ..machine import this_machine
    from ..records.codec import to_json
    from ..report.catalogue import print_techniques
    from ..report.machine_readable import write_json
    from ..tuning.candidates import list_for_machine, list_for_script

    require_platform()
    if arguments.script is None and arguments.module is None:
        if arguments.nproc_per_node is not None:
            raise UsageError("--nproc-per-node is for a script that is distributed itself: name it")
        listing = list_for_machine(this_machine())
    else:
        from ..bench.observe import observe
        from ..records.facts import Facts
        from ..scripts.distribution import distribution_of, why_not_shared

        script = script_of(arguments)
        with stage_of(script, arguments) as stage:
            observation, _ = observe(stage)
        by_itself = why_not_shared(distribution_of(script))
        ruled_out = {"processes": by_itself} if by_itself else {}
        listing = list_for_script(script.label, Facts(stage.seen, observation), ruled_out)
    if arguments.json is not None:
        write_json(to_json(listing), arguments.json)
    print_techniques(listing, console_for(arguments.json))
    return 0
