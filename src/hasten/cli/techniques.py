"""``hasten techniques [SCRIPT]``: which techniques are there, and which apply here?"""

from __future__ import annotations

from types import SimpleNamespace

from .common import console_for, require_platform, say_how_long_it_takes, script_of, stage_of
from .options import ALLOW_WRITES, JSON, ranks, script

NAME = "techniques"
HELP = "list the techniques, and say which apply to this machine and, if one is named, to a script"
PARAMETERS = (*ranks("watch"), ALLOW_WRITES, JSON, *script(required=False))


def execute(arguments: SimpleNamespace) -> int:
    from ..errors import UsageError
    from ..machine import this_machine
    from ..records.codec import to_json
    from ..report.machine_readable import write_json
    from ..report.technique_list import print_techniques
    from ..tuning.candidates import list_for_machine, list_for_script

    require_platform()
    if arguments.script is None and arguments.module is None:
        if arguments.nproc_per_node is not None:
            raise UsageError("--nproc-per-node is for a script that is distributed itself: name it")
        listing = list_for_machine(this_machine())
    else:
        from ..bench.observe import observe
        from ..bench.trials import Trials
        from ..records.facts import Facts
        from ..scripts.distribution import distribution_of, why_not_shared

        script = script_of(arguments)
        distribution = distribution_of(script)
        stage = stage_of(script, distribution, arguments)
        with Trials(stage) as trials:
            observation, _ = observe(trials, told=say_how_long_it_takes)
        by_itself = why_not_shared(distribution)
        ruled_out = {"processes": by_itself} if by_itself else {}
        listing = list_for_script(script.label, Facts(stage.seen, observation), ruled_out)
    if arguments.json is not None:
        write_json(to_json(listing), arguments.json)
    print_techniques(listing, console_for(arguments.json))
    return 0
