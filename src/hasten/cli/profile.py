"""``hasten profile SCRIPT``: where does a step's time go?"""

from __future__ import annotations

import argparse

from .. import saying
from .common import (
    add_allow_writes,
    add_json,
    add_ranks,
    add_script,
    add_wait,
    console_for,
    require_platform,
    script_of,
    stage_of,
)
from .values import MOST_STEPS, whole_number

NAME = "profile"
HELP = "watch a script train for some steps and say where a step's time goes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=whole_number(2, MOST_STEPS), default=30, help="steps to watch (default %(default)s)"
    )
    parser.add_argument(
        "--warmup",
        type=whole_number(1, MOST_STEPS),
        default=10,
        help="steps before, not counted (default %(default)s)",
    )
    add_ranks(parser, "watch")
    add_wait(parser)
    add_allow_writes(parser)
    add_json(parser)
    add_script(parser)


def execute(arguments: argparse.Namespace) -> int:
    from ..bench.observe import observe
    from ..bench.workers.outside import outside_words
    from ..causes import find_causes
    from ..lock import beside_nobody
    from ..records.facts import Facts
    from ..report.machine_readable import profile_json, write_json
    from ..report.terminal import print_profile
    from ..scripts.workspace import Workspace
    from ..tuning.candidates import with_remedies_here

    require_platform()
    script = script_of(arguments)
    stage = stage_of(script, arguments)  # before anything is waited for
    with beside_nobody(Workspace(script), arguments.wait, say), stage:
        observation, _ = observe(stage, arguments.steps, arguments.warmup)
    facts = Facts(stage.seen, observation)
    causes = with_remedies_here(find_causes(facts), facts)
    if arguments.json is not None:
        write_json(profile_json(observation, arguments.nproc_per_node), arguments.json)
    console = console_for(arguments.json)
    print_profile(observation, causes, console, arguments.nproc_per_node)
    for words in outside_words(stage.written_outside):
        console.print(f"Warning: {words}", highlight=False, markup=False)
    return 0


def say(text: str) -> None:
    saying.say(f"hasten: {text}")
