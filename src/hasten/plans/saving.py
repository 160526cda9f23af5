"""The plan that a tune writes, and what it says about its measurement."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import date

from ..errors import OutputLost
from ..lost_writes import why_lost
from ..records.plan import Plan
from ..records.result import TuneResult
from ..records.sources import SourceDigests
from ..report.conclusion import QUALITY_UNKNOWN, looks_words
from ..scripts.workspace import Script, Workspace
from .files import SavedPlan, write_plan
from .pace import as_measured


def save_plan(workspace: Workspace, result: TuneResult) -> None:
    """Write the plan; without a gain, the empty one, so that an older plan is not mistaken for this
    answer.

    Raises OutputLost if it cannot be written, with the command that trains under it.
    """
    script, sources = workspace.script, result.sources
    assert sources is not None
    measured: dict[str, object] = {"date": date.today().isoformat(), "outcome": result.outcome}
    if result.speedup is not None:
        speedup = result.speedup
        measured |= {
            "speedup": round(speedup.value, 3),
            "low": round(speedup.low, 3),
            "high": round(speedup.high, 3),
            "processes": speedup.count,
            **as_measured(result.pace),
            **({"parts": list(result.parts)} if result.parts else {}),
            **({"share_of_epochs": round(result.shortened, 4)} if result.shortened < 1 else {}),
            **({"alone": looks_words(result.looks)} if result.looks is not None else {}),
        }
        if result.guard is not None and result.guard.changes:
            measured["quality"] = QUALITY_UNKNOWN
    written_for = made_for(
        script, sources, result.machine, result.cpu_flags, result.versions, nproc=result.nproc
    )
    path = workspace.plan_path
    try:
        workspace.make()  # somebody may have deleted everything meanwhile
        write_plan(path, SavedPlan(Plan(result.plan.techniques), written_for, measured))
    except OSError as error:
        told = f"the plan could not be written to {path}: {why_lost(error, path)}"
        raise OutputLost(f"{told}. {_by_hand(script, result)}" if result.plan else told) from None


def made_for(
    script: Script,
    sources: SourceDigests,
    machine: str,
    cpu_flags: Sequence[str],
    versions: Mapping[str, str],
    nproc: int | None,
) -> dict[str, object]:
    """What a plan was made for; ``fitting`` compares that with what is here."""
    return {
        "script": script.label,
        "digest": sources.script,
        "modules": dict(sources.modules),
        "arguments": list(script.arguments),
        "machine": machine,
        "cpu_flags": list(cpu_flags),
        **({"nproc_per_node": nproc} if nproc is not None else {}),
        **versions,
    }


def _by_hand(script: Script, result: TuneResult) -> str:
    """The command that trains under a plan that was not saved."""
    words = []
    for name, settings in result.plan.techniques.items():
        rest = ",".join(f"{key}={value}" for key, value in settings.items())
        words += ["--use", shlex.quote(f"{name}:{rest}" if rest else name)]
    what = "a run as long as this is" if result.only_starts_sooner else "it trains"
    gain = f"{what} {result.speedup.value:.2f} times faster" if result.speedup is not None else "train"
    return f"Without it, {gain} with: hasten run {result.rank_options}{' '.join(words)} {script.label}"
