"""``hasten report SCRIPT``: what the last tune found, from the journal."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .common import console_for, script_of
from .options import JSON, script
from .tune import best_so_far

if TYPE_CHECKING:
    from ..records.result import TuneResult
    from ..scripts.workspace import Script
    from ..tuning.history import PastTune

NAME = "report"
HELP = "show again what the last tune of a script found; measures nothing"
PARAMETERS = (JSON, *script())
_ENDED = {
    "open": "is still running, or was killed",
    "failed": "failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
}


def execute(arguments: SimpleNamespace) -> int:
    from ..report.machine_readable import tune_json, write_json
    from ..report.terminal import print_tune
    from ..scripts.workspace import Workspace

    script = script_of(arguments)
    later, last, result = _last(script)
    if arguments.json is not None:
        write_json(tune_json(result), arguments.json)
    console = console_for(arguments.json)
    console.print(f"Tune of {_when(last)}: {shlex.join(last.argv)}", highlight=False, markup=False)
    print_tune(result, console, _as_begun(script, last).command, Workspace(script).plan_path)
    for line in _of_a_later_one(script, later, result):
        console.print(line, highlight=False, markup=False, soft_wrap=True)  # it ends with a command
    return 0


def _last(script: Script) -> tuple[PastTune | None, PastTune, TuneResult]:
    """The last tune with a result, its result, and the later one without, if any."""
    from ..errors import UsageError
    from ..scripts.workspace import Workspace
    from ..tuning.history import past_tunes

    later = None
    for tune in past_tunes(Workspace(script)):
        if tune.result is not None:
            return later, tune, tune.result
        later = later or tune
    without = (
        f"the last one, of {_when(later)}, {_ENDED.get(later.state, 'ended')}" if later else "none began"
    )
    left = best_so_far(script if later is None else _as_begun(script, later))
    raise UsageError(f"no tune of {script.label} has reached a result: {without}. {left or _advice(script)}")


def _advice(script: Script) -> str:
    return f"Tune it: hasten tune {script.label}"


def _of_a_later_one(script: Script, later: PastTune | None, result: TuneResult) -> list[str]:
    if later is None:
        return []
    how = _ENDED.get(later.state, "ended")
    left = best_so_far(_as_begun(script, later), result.rank_options)
    return [f"A later tune, of {_when(later)}, {how} and has no result. {left}".rstrip()]


def _as_begun(script: Script, tune: PastTune) -> Script:
    return replace(script, arguments=tune.argv[1:])


def _when(tune: PastTune) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(tune.began))
