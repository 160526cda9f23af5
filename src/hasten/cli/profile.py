"""``hasten profile SCRIPT``: where does a run's time go, and a step's?"""

from __future__ import annotations

from types import SimpleNamespace

import click

from .. import saying
from .common import console_for, require_platform, say_how_long_it_takes, script_of, stage_of
from .options import ALLOW_WRITES, JSON, WAIT, ranks, script
from .values import MOST_STEPS, positive_seconds, whole_number

NAME = "profile"
HELP = "watch a script train and say where the time of a run and of a step goes"
DEFAULT_STEPS, DEFAULT_WARMUP = 30, 10
DEFAULT_SECONDS = 30.0
SCRIPT_FAILED = 1  # the exit code if the script failed after it was watched long enough
PARAMETERS = (
    click.Option(
        ["--steps"],
        type=whole_number(2, MOST_STEPS),
        default=DEFAULT_STEPS,
        metavar="STEPS",
        help=f"steps to watch (default {DEFAULT_STEPS})",
    ),
    click.Option(
        ["--warmup"],
        type=whole_number(1, MOST_STEPS),
        default=DEFAULT_WARMUP,
        metavar="STEPS",
        help=f"warm-up steps, not counted (default {DEFAULT_WARMUP})",
    ),
    click.Option(
        ["--seconds"],
        type=positive_seconds,
        metavar="SECONDS",
        help="after these steps, watch on until an epoch has ended, for at most this long (default "
        f"{DEFAULT_SECONDS:.0f}, if it is known to end within that)",
    ),
    click.Option(["--whole"], is_flag=True, help="watch to the end of the script, however long it takes"),
    *ranks("watch"),
    WAIT,
    ALLOW_WRITES,
    JSON,
    *script(),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..bench.observe import WatchOn, observe
    from ..bench.trials import Trials
    from ..bench.workers.outside_writes import outside_caution
    from ..causes import find_causes
    from ..lock import beside_nobody
    from ..records.facts import Facts
    from ..report.caution import caution_words
    from ..report.machine_readable import profile_json, write_json
    from ..report.terminal import print_profile
    from ..scripts.distribution import distribution_of
    from ..scripts.workspace import Workspace
    from ..tuning.candidates import with_remedies_here

    require_platform()
    script = script_of(arguments)
    stage = stage_of(script, distribution_of(script), arguments)  # before any waiting
    seconds, asked = arguments.seconds or DEFAULT_SECONDS, arguments.seconds is not None
    on = WatchOn(seconds, asked=asked, whole=arguments.whole)
    with beside_nobody(Workspace(script), arguments.wait, say), Trials(stage) as trials:
        observation, _ = observe(trials, arguments.steps, arguments.warmup, on=on, told=say_how_long_it_takes)
    facts = Facts(stage.seen, observation)
    causes = with_remedies_here(find_causes(facts), facts)
    if arguments.json is not None:
        write_json(profile_json(observation, causes, arguments.nproc_per_node), arguments.json)
    console = console_for(arguments.json)
    print_profile(observation, causes, console, arguments.nproc_per_node, None if on.whole else on.seconds)
    for caution in outside_caution(trials.written_outside):
        console.print(f"Warning: {caution_words(caution)}", highlight=False, markup=False)
    failed = observation.run is not None and observation.run.failure
    return SCRIPT_FAILED if failed else 0


def say(text: str) -> None:
    saying.say(f"hasten: {text}")
