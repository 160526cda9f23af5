"""``hasten verify SCRIPT``: train with and without the plan to the end, over seeds: is quality held?"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..saying import say
from .common import (
    add_allow_writes,
    add_json,
    add_ranks,
    add_script,
    add_techniques,
    add_wait,
    console_for,
    require_platform,
    script_of,
)
from .values import MOST_SEEDS, file_name, shortened, whole_number

if TYPE_CHECKING:
    from ..plans.files import SavedPlan
    from ..records.quality import Tolerance
    from ..scripts.workspace import Script

NAME = "verify"
HELP = "train with and without the plan to the end, over seeds, and say whether quality is held"
EXIT_CODES = {"held": 0, "lost": 5, "cannot tell": 6, "failed": 7}
EPILOG = (
    "Each run has another seed for torch, random and numpy. Where the script takes its seed as an argument, "
    "write {seed} there, as in --seed {seed}. Exit codes: "
    + ", ".join(f"{code} {outcome}" for outcome, code in EXIT_CODES.items())
    + ". Errors have the codes of the other verbs, 1 to 4."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan", metavar="FILE", type=file_name, help="a plan elsewhere than in .hasten/NAME/plan.toml"
    )
    add_techniques(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME|[NAME=]PATTERN",
        help="how good the model is: the NAME of what the script tells by hasten.metric(NAME=...) (default: "
        "the first that it tells), or a regular expression whose one group catches the number in the lines "
        "that the script prints, such as 'accuracy ([0-9.]+)'; the last value is the final quality",
    )
    parser.add_argument(
        "--lower-is-better",
        action="store_true",
        help="as is assumed of names with loss, error or perplexity in them",
    )
    parser.add_argument(
        "--seeds",
        type=whole_number(2, MOST_SEEDS),
        default=3,
        help="trainings of each, 2 at least (default %(default)s)",
    )
    parser.add_argument(
        "--tolerance",
        type=tolerance_of,
        default="0.5%",
        metavar="WORSE",
        help="how much worse still counts as held: in the metric's own units, or with a %% sign relative to "
        "the baseline's value (default 0.5%%)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, and only the result")
    add_ranks(parser, "train")
    add_wait(parser)
    add_allow_writes(parser)
    add_json(parser)
    add_script(parser)


def execute(arguments: argparse.Namespace) -> int:
    from ..lock import beside_nobody
    from ..machine import this_machine
    from ..plans.fitting import fit
    from ..quality.metric import Wanted, wanted_metric
    from ..quality.verify import VerifyRequest, verify
    from ..report.machine_readable import verify_json, write_json
    from ..report.quality import print_verify
    from ..scripts.workspace import Workspace

    require_platform()
    wanted = wanted_metric(arguments.metric) if arguments.metric is not None else Wanted()
    script = script_of(arguments)
    if arguments.wait:  # the plan to verify is the one that a tune is about to write
        with beside_nobody(Workspace(script), True, say):
            pass
    plan, remarks = fit(_plan(arguments, script), script, this_machine(), arguments.nproc_per_node)
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


def _plan(arguments: argparse.Namespace, script: Script) -> SavedPlan:
    """The plan that was asked for; an empty one where there is none."""
    from ..plans.files import SavedPlan, changed, read_plan
    from ..plans.own import own_plan
    from ..records.plan import BASELINE
    from ..scripts.workspace import Workspace

    saved: SavedPlan | None = None
    if arguments.plan:
        saved = read_plan(Path(arguments.plan))
    elif not arguments.use:
        saved, remark = own_plan(Workspace(script))
        if remark:
            say(f"hasten: {remark}")
    return changed(saved or SavedPlan(BASELINE), arguments.use, arguments.without)


def _nothing(script: Script) -> Exception:
    from ..errors import UsageError

    return UsageError(
        f"there is no plan for {script.label} to verify, or nothing of it applies here. "
        f"Make one with: hasten tune {script.label}"
    )


def tolerance_of(text: str) -> Tolerance:
    """For argparse: "0.5%" of the baseline's value, or "0.002" in the metric's own units."""
    from ..records.quality import Tolerance

    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        expected = "expected a number of at least zero, such as 0.002 or 0.5%"
        raise argparse.ArgumentTypeError(f"{expected}, found {shortened(text)}")
    return Tolerance(value / 100, True) if text.endswith("%") else Tolerance(value, False)


def _silent(text: str) -> None:
    pass
