"""One process on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from ..inside.job import VARIABLE, Job
from ..inside.techniques.catalog import CATALOG
from ..records.codec import to_json
from ..records.plan import Plan

BOOTSTRAP = Path(__file__).resolve().parent.parent / "inside" / "bootstrap.py"


def environment_of(plan: Plan) -> dict[str, str]:
    """Variables that the plan's techniques need before a process starts."""
    return {
        key: value
        for name, settings in plan.techniques.items()
        for key, value in CATALOG[name].environment(settings).items()
    }


def render(
    job: Job, base: Mapping[str, str], python: str = sys.executable
) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a worker for ``job``.

    ``base`` is the user's environment; what they set in it themselves was never taken into a plan.
    """
    environment = {**base, **environment_of(job.plan), VARIABLE: json.dumps(to_json(job))}
    return [python, str(BOOTSTRAP)], environment
