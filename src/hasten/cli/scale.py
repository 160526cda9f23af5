"""``hasten scale SCRIPT``: what would more machines bring?"""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from .. import saying
from .common import console_for, plan_asked_for, require_platform, script_of, stage_of
from .options import ALLOW_WRITES, JSON, PLAN, TECHNIQUES, WAIT, script
from .values import amount, file_name, shortened, whole_number

if TYPE_CHECKING:
    from ..records.scaling import Cluster, Link

NAME = "scale"
HELP = "predict speed, efficiency and cost on more machines, from steps measured here"
MOST_WORKERS = 1_000_000
_SECONDS = 15.0  # that each process is watched at most
_LINK = re.compile(r"([\d.]+)\s*([MG])bit/s\s*,\s*([\d.]+)\s*(us|ms)")
_BETWEEN, _WITHIN = "10Gbit/s,50us", "40Gbit/s,5us"


def link_of(text: str) -> Link:
    """An option's type: bandwidth and latency, "10Gbit/s,50us"."""
    from ..records.scaling import Link

    found = _LINK.fullmatch(text.strip())
    try:
        assert found is not None
        bits = float(found[1]) * {"M": 1e6, "G": 1e9}[found[2]]
        latency = float(found[3]) / {"us": 1e6, "ms": 1e3}[found[4]]
        assert bits > 0
    except (AssertionError, ValueError):
        expected = "expected bandwidth and latency, such as 10Gbit/s,50us"
        raise click.BadParameter(f"{expected}, found {shortened(text)}") from None
    return Link(latency, bits / 8)


PARAMETERS = (
    click.Option(
        ["--to"],
        type=whole_number(2, MOST_WORKERS),
        default=64,
        metavar="N",
        help="the most workers to look at (default 64)",
    ),
    click.Option(
        ["--per-host"],
        type=whole_number(1, 1024),
        default=1,
        metavar="N",
        help="workers on each host, each as fast as the one measured here (default 1)",
    ),
    click.Option(
        ["--between"],
        type=link_of,
        metavar="LINK",
        help=f"what connects hosts: bandwidth and latency of a message (default {_BETWEEN})",
    ),
    click.Option(
        ["--within"],
        type=link_of,
        metavar="LINK",
        help=f"what connects workers of one host (default {_WITHIN})",
    ),
    click.Option(
        ["--mtbf-hours"],
        type=amount,
        metavar="HOURS",
        help="mean time between failures of one host (default: hosts do not fail)",
    ),
    click.Option(
        ["--checkpoint-minutes"],
        type=amount,
        default=10.0,
        metavar="MINUTES",
        help="time between two checkpoints (default 10)",
    ),
    click.Option(
        ["--restart-minutes"],
        type=amount,
        default=2.0,
        metavar="MINUTES",
        help="time to start again after a failure (default 2)",
    ),
    click.Option(["--price"], type=amount, metavar="PRICE", help="of a host for an hour, in any currency"),
    click.Option(
        ["--plot"], type=file_name, metavar="FILE", help="draw speed against workers (.svg, .png, .pdf)"
    ),
    PLAN,
    *TECHNIQUES,
    WAIT,
    ALLOW_WRITES,
    JSON,
    *script(),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..bench.step_costs import step_costs
    from ..lock import beside_nobody
    from ..machine import this_machine
    from ..plans.fitting import fit
    from ..report.machine_readable import write_json
    from ..report.scaling import scaling_json, scaling_lines
    from ..report.scaling_plot import check_drawing, draw
    from ..scaling.prediction import forecast
    from ..scaling.workload import workload_of
    from ..scripts.distribution import distribution_of
    from ..scripts.workspace import Workspace

    require_platform()
    if arguments.plot is not None:
        check_drawing()
    script = script_of(arguments)
    alone = SimpleNamespace(**{**vars(arguments), "nproc_per_node": None, "backend": None})
    stage = stage_of(script, distribution_of(script), alone)
    plan, remarks = fit(plan_asked_for(arguments, script), script, this_machine(), None)
    plan = plan.without("processes")
    for remark in remarks:
        _say(remark)
    with beside_nobody(Workspace(script), arguments.wait, _say):
        observation, runs = step_costs(stage, plan, _SECONDS, _say)
    found = forecast(workload_of(observation, runs), cluster_of(arguments), arguments.to)
    assumed = _assumed(arguments)
    if arguments.json is not None:
        write_json({**scaling_json(found, assumed), "plan": plan.to_json()}, arguments.json)
    console = console_for(arguments.json)
    console.print(f"Under the plan: {plan.label}." if plan else "Plain, without a plan.", highlight=False)
    for line in scaling_lines(found, assumed):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if arguments.plot is not None:
        draw(found, arguments.plot, f"{os.path.basename(script.label)}, {plan.label}")
    return 0


def cluster_of(arguments: SimpleNamespace) -> Cluster:
    """What the options say of the machines."""
    from ..records.scaling import Cluster

    return Cluster(
        per_host=arguments.per_host,
        within=arguments.within or link_of(_WITHIN),
        between=arguments.between or link_of(_BETWEEN),
        host_failure_seconds=arguments.mtbf_hours * 3600 if arguments.mtbf_hours else None,
        checkpoint_seconds=arguments.checkpoint_minutes * 60,
        restart_seconds=arguments.restart_minutes * 60,
        host_hour_price=arguments.price,
    )


def _assumed(arguments: SimpleNamespace) -> list[str]:
    unsaid = ["--between"] if arguments.between is None else []
    unsaid += ["--within"] if arguments.within is None and arguments.per_host > 1 else []
    return [f"typical links ({' and '.join(unsaid)} not given)"] if unsaid else []


def _say(text: str) -> None:
    saying.say(f"hasten: {text}")
