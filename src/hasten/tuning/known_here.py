"""What earlier tunes know of a training that a run is about to begin: the same script, arguments, local
modules, machine and versions.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass

from .. import __version__
from ..errors import HastenError
from ..inside.techniques.base import Technique
from ..inside.techniques.catalog import CATALOG
from ..machine.torch_build import torch_version
from ..records.machine import Machine
from ..records.plan import BASELINE, Plan, Settings
from ..records.result import TuneResult
from ..scripts.sources import changed_since
from ..scripts.workspace import Script, Workspace
from .history import past_tunes


@dataclass(frozen=True)
class Known:
    """``passed``: techniques of live scope that the guard has passed; ``steps`` that the script takes, None
    where no tune saw its end.
    """

    passed: Plan = BASELINE
    steps: int | None = None


def known_here(script: Script, machine: Machine) -> Known:
    """What the last tune knows that is the same in all of that. Nothing if there is none, or if the journal
    cannot be read: a run does not need one.
    """
    versions = {
        "hasten": __version__,
        "torch": torch_version(),
        "python": platform.python_version(),
    }
    with suppress(HastenError, OSError):
        for past in past_tunes(Workspace(script)):
            result = past.result
            if result is None or past.argv != script.argv:
                continue
            if (
                result.machine == machine.identity
                and result.versions == versions
                and _as_it_was(script, result)
            ):
                return Known(_passed(result), _steps_of(result))
    return Known()


def run_seconds(script: Script) -> float | None:
    """Seconds of a plain run, by the last tune with these arguments; None if none saw its end."""
    with suppress(HastenError, OSError):
        for past in past_tunes(Workspace(script)):
            if past.result is not None and past.argv == script.argv:
                return _seconds_of(past.result)
    return None


def _seconds_of(result: TuneResult) -> float | None:
    told = result.forecast
    if told is not None and told.of == "run" and "length by loops" not in told.assumed:
        return told.before.value
    steps, each = result.script_steps, result.baseline_step_seconds
    if steps is None or each is None:
        return None
    start = result.observation.start_seconds if result.observation is not None else 0.0
    return start + steps * each


def _steps_of(result: TuneResult) -> int | None:
    """None where each evaluation of a closure was a step: in a run, an update is."""
    seen = result.observation
    return None if seen is not None and seen.steps_are_evaluations else result.script_steps


def _as_it_was(script: Script, result: TuneResult) -> bool:
    sources = result.sources
    return (
        sources is not None
        and sources.script == script.digest()
        and not changed_since(script, sources.modules)
    )


def _passed(result: TuneResult) -> Plan:
    """The part of a result's plan that has passed the guard: what it claims, as it stands."""
    if (
        result.nproc is not None
        or result.guard is None
        or not result.guard.passed
        or result.outcome != "gain"
    ):
        return BASELINE
    may = {n for n, how in result.plan.techniques.items() if n in CATALOG and _may_be_tried(CATALOG[n], how)}
    return result.plan.only(may)


def _may_be_tried(technique: type[Technique], settings: Settings) -> bool:
    return technique.scope == "live" and not technique.changes_training(settings)
