"""Does a plan fit this script, machine and torch? A plan made for others may still help, but that must be
said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inside.techniques.catalog import CATALOG
from ..launch.shares import shares
from ..machine.cpu import FLAGS
from ..machine.torch_build import torch_version
from ..records.machine import Machine
from ..records.plan import Plan
from ..scripts.sources import changed_since
from ..scripts.workspace import Script
from .files import SavedPlan, of_what


def fit(
    saved: SavedPlan, script: Script, machine: Machine, nproc: int | None = None
) -> tuple[Plan, list[str]]:
    """The part of the plan that can apply here, and a remark for everything that has changed.

    ``nproc``: ranks to start; None for a script that trains in one process.
    """
    made_for = saved.made_for
    many = made_for.get("nproc_per_node")
    then = _as_seen(machine, many)
    machine = _as_seen(machine, nproc if many is not None else None)
    remarks = _of_sources(made_for, script)
    elsewhere = []
    if made_for.get("machine") not in (None, then.identity):
        elsewhere.append(
            f"the plan was made on another machine ({made_for['machine']}); this is {then.identity}"
        )
    if many is not None and many != nproc:
        remarks.append(f"the plan was made for {many} processes: start it with --nproc-per-node {many}")
    torch = torch_version()
    if made_for.get("torch") not in (None, torch):
        elsewhere.append(f"the plan was made with torch {made_for['torch']}; this is {torch}")
    left_out = []
    plan = saved.plan
    for name, settings in saved.plan.techniques.items():
        technique = CATALOG[name]
        reasons = technique.refuse_machine(machine) or technique.refuse_settings(settings, machine)
        if reasons:
            left_out.append(f"{name} does not apply here and is left out: {'; '.join(reasons)}")
            plan = plan.without(name)
    if elsewhere:
        elsewhere[-1] += f". {_what_it_does(plan, saved, script, machine)}"
    return plan, [*remarks, *elsewhere, *left_out]


def _what_it_does(plan: Plan, saved: SavedPlan, script: Script, machine: Machine) -> str:
    """What a plan made elsewhere does here."""
    if not saved.plan:
        return f"To find out what is faster here: hasten tune {script.label}"
    if not plan:
        return f"Nothing of it applies here. To find out what is faster here: hasten tune {script.label}"
    under = "all of it" if plan == saved.plan else ", ".join(plan.techniques)
    speedup = saved.measured.get("speedup")
    what = of_what(saved.measured)
    gain = f"its {speedup:.2f}x{what} was" if isinstance(speedup, float) else "its gain was"
    text = f"Here it trains under {under}; {gain} measured there and may differ here"
    missing = _instructions_missing(plan, saved.made_for.get("cpu_flags"), machine)
    if missing:
        text += f"; {missing}"
    return f"{text}: to measure it, hasten tune {script.label}"


def _instructions_missing(plan: Plan, then: object, machine: Machine) -> str:
    """Which lower-precision techniques may be slow because this processor lacks instructions that the other
    had. Unknown if this one reports none, or a GPU computes.
    """
    lower = [name for name in plan.techniques if CATALOG[name].precision not in ("float32", "")]
    if not lower or machine.accelerators or not machine.cpu_flags or not isinstance(then, list):
        return ""
    gone = [str(flag) for flag in then if flag in FLAGS and flag not in machine.cpu_flags]
    if not gone:
        return ""
    return f"this processor has no {', '.join(gone)}, so {' and '.join(lower)} may even be slower"


def _of_sources(made_for: Mapping[str, Any], script: Script) -> list[str]:
    """What has changed in the script, and in the local modules that it imported when its plan was made."""
    remarks = []
    if made_for.get("digest") not in (None, script.digest()):
        if made_for.get("script") != script.label:
            return [f"the plan was made for another script, {made_for.get('script')}"]
        remarks.append(f"{script.label} has changed since its plan was made: tune again to be sure")
    modules = made_for.get("modules")
    changed = changed_since(script, modules) if isinstance(modules, Mapping) else []
    if changed:
        remarks.append(f"{' and '.join(changed)} changed since the plan was made: tune again to be sure")
    return remarks


def _as_seen(machine: Machine, many: object) -> Machine:
    """The part that one of ``many`` ranks sees; all of it if that number does not fit."""
    if isinstance(many, int) and 0 < many <= machine.usable_cpus:
        return shares(machine, many)[0].part_of(machine)
    return machine
