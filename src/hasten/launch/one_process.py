"""One process on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..inside.job import VARIABLE, Job
from ..inside.techniques.catalog import CATALOG
from ..records.codec import to_json
from ..records.machine import Machine
from ..records.plan import Plan

LISTS = ("LD_PRELOAD", "GLIBC_TUNABLES")  # values from techniques and the user are joined in these
BOOTSTRAP = Path(__file__).resolve().parent.parent / "inside" / "bootstrap.py"


def environment_of(plan: Plan, machine: Machine, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that the plan's techniques need before a process starts, in the catalogue's order.

    ``base``: what the process gets in addition. Libraries to load come after the user's own.
    """
    so_far = {**machine.environment, **(base or {})}
    made: dict[str, str] = {}
    for name in filter(plan.techniques.__contains__, CATALOG):
        found = CATALOG[name].environment(plan.techniques[name], replace(machine, environment=so_far))
        for key, value in found.items():
            before = so_far.get(key, "") if key in LISTS else ""
            so_far[key] = made[key] = f"{before}:{value}" if before else value
    return made


def render(
    job: Job, base: Mapping[str, str], python: str = sys.executable
) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a worker for ``job``.

    ``base`` is the user's environment; what they set themselves was never put into a plan.
    """
    variables = environment_of(job.plan, job.machine, base)
    environment = {**base, **variables, VARIABLE: json.dumps(to_json(job))}
    return [python, str(BOOTSTRAP)], environment
