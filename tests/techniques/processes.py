"""A technique of process scope in a separate process: started as a worker does, then asked for proof."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from hasten.inside.techniques.catalog import CATALOG
from hasten.launch.one_process import environment_of
from hasten.machine import this_machine
from hasten.machine.facts import speed_variables
from hasten.records.machine import Machine
from hasten.records.plan import Plan, Settings

from ..patience import PATIENCE_SECONDS

Run = Callable[[str], None]
"""Runs this source in a process that has imported torch and nothing else."""

_ASK = """
import json, sys
import torch
from hasten.inside.seams import Seams
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import Training

name, asked, started, script = json.loads(sys.argv[1])
training = Training(torch, Seams(), 0)
technique = CATALOG[name]()
if started is not None:
    technique.start(training, started)
exec(script)
technique.install(training, asked)
proof = technique.proof(training)
print(json.dumps([proof.effective, proof.evidence]))
"""


def proof_of(
    name: str,
    asked: Settings,
    under: Plan | None = None,
    on: Machine | None = None,
    script: str = "",
) -> tuple[bool, str]:
    """The proof of ``name`` with the settings ``asked``, in a process started under the plan ``under``.

    ``script`` runs after ``start``. The process prints nothing on standard error.
    """
    plan = under or Plan()
    plain = {key: value for key, value in os.environ.items() if key not in speed_variables(os.environ)}
    told = json.dumps([name, dict(asked), plan.to_json().get(name), script])
    done = subprocess.run(
        [sys.executable, "-c", _ASK, told],
        env={**plain, **environment_of(plan, on or this_machine(), {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    effective, evidence = json.loads(done.stdout)
    assert CATALOG[name].scope == "process"
    return effective, evidence


def proven(name: str, settings: Settings, **more: str) -> bool:
    """Whether the proof holds in a process under the technique."""
    return proof_of(name, settings, Plan({name: settings}), **more)[0]  # type: ignore[arg-type]


def absent(name: str, settings: Settings) -> bool:
    """Whether the proof fails in a process without the technique."""
    return not proof_of(name, settings)[0]
