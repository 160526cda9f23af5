"""``hasten verify SCRIPT``: train with and without the plan to the end, over seeds: is quality held?"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from ..saying import say
from .common import console_for, plan_asked_for, require_platform, script_of
from .options import ALLOW_WRITES, JSON, PLAN, QUIET, TECHNIQUES, WAIT, ranks, script
from .values import MOST_SEEDS, shortened, whole_number

if TYPE_CHECKING:
    from ..records.quality import Tolerance
    from ..scripts.workspace import Script

NAME = "verify"
HELP = "train with and without the plan to the end, over seeds, and say whether quality is held"
DEFAULT_SEEDS = 3
EXIT_CODES = {"held": 0, "lost": 5, "cannot tell": 6, "failed": 7}
EPILOG = (
    "Each run has another seed for torch, random and numpy. Where the script takes its seed as an argument, "
    "write {seed} there, as in --seed {seed}. Exit codes: "
    + ", ".join(f"{code} {outcome}" for outcome, code in EXIT_CODES.items())
    + ". Errors have the codes of the other verbs, 1 to 4."
)


def tolerance_of(text: str) -> Tolerance:
    """An option's type: "0.5%" of the baseline's value, or "0.002" in the metric's own units."""
    from ..records.quality import Tolerance

    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        expected = "expected a number of at least zero, such as 0.002 or 0.5%"
        raise click.BadParameter(f"{expected}, found {shortened(text)}")
    return Tolerance(value / 100, True) if text.endswith("%") else Tolerance(value, False)


PARAMETERS = (
    PLAN,
    *TECHNIQUES,
    click.Option(
        ["--metric"],
        metavar="NAME|[NAME=]PATTERN",
        help="how good the model is: the NAME that the script reports with hasten.metric(NAME=...) (default: "
        "the first one), or a regular expression whose one group matches the number in the lines "
        "that the script prints, such as 'accuracy ([0-9.]+)'; the last value is the final quality",
    ),
    click.Option(
        ["--lower-is-better"],
        is_flag=True,
        help="the default for names with loss, error or perplexity in them",
    ),
    click.Option(
        ["--seeds"],
        type=whole_number(2, MOST_SEEDS),
        default=DEFAULT_SEEDS,
        metavar="SEEDS",
        help=f"trainings of each, at least 2 (default {DEFAULT_SEEDS})",
    ),
    click.Option(
        ["--tolerance"],
        type=tolerance_of,
        default="0.5%",
        metavar="WORSE",
        help="how much worse still counts as held: in the metric's own units, or with a % sign relative to "
        "the baseline's value (default 0.5%)",
    ),
    QUIET,
    *ranks("train"),
    WAIT,
    ALLOW_WRITES,
    JSON,
    *script(),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..lock import beside_nobody
    from ..machine import this_machine
    from ..plans.fitting import fit
    from ..plans.unconfirmed import caveat
    from ..quality.metric import Wanted, wanted_metric
    from ..quality.verify import VerifyRequest, verify
    from ..report.machine_readable import verify_json, write_json
    from ..report.quality import print_verify
    from ..scripts.workspace import Workspace

    require_platform()
    wanted = wanted_metric(arguments.metric) if arguments.metric is not None else Wanted()
    script = script_of(arguments)
    if arguments.wait:  # the plan to verify is the one that the tune will write
        with beside_nobody(Workspace(script), True, say):
            pass
    saved = plan_asked_for(arguments, script)
    plan, remarks = fit(saved, script, this_machine(), arguments.nproc_per_node)
    if unconfirmed := caveat(saved):
        say(f"hasten: the plan is {unconfirmed}")
    for remark in remarks:
        say(f"hasten: {remark}")
    if not plan:
        raise _nothing(script)
    request = VerifyRequest(
        script=script,
        plan=plan,
        environment=dict(os.environ),
        wanted=wanted,
        lower_is_better=arguments.lower_is_better,
        seeds=arguments.seeds,
        tolerance=arguments.tolerance,
        allow_writes=arguments.allow_writes,
        remarks=tuple(remarks),
        wait=arguments.wait,
        nproc=arguments.nproc_per_node,
        backend=arguments.backend or "",
    )
    verdict = verify(request, _silent if arguments.quiet else say)
    if arguments.json is not None:
        write_json(verify_json(verdict), arguments.json)
    print_verify(verdict, console_for(arguments.json))
    return EXIT_CODES[verdict.outcome]


def _nothing(script: Script) -> Exception:
    from ..errors import UsageError

    return UsageError(
        f"there is no plan for {script.label} to verify, or nothing of it applies here. "
        f"Make one with: hasten tune {script.label}"
    )


def _silent(text: str) -> None:
    pass
