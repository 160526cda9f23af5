"""``hasten export SCRIPT``: the plan as ordinary PyTorch code, for those who want to do without hasten."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..saying import say
from .common import plan_asked_for, script_of
from .options import PLAN, TECHNIQUES, script

if TYPE_CHECKING:
    from ..scripts.workspace import Script

NAME = "export"
HELP = "print the plan as ordinary PyTorch code, to copy into the script"
PARAMETERS = (PLAN, *TECHNIQUES, *script())


def execute(arguments: SimpleNamespace) -> int:
    from ..plans.as_code import as_code
    from ..plans.unconfirmed import caveat
    from ..report.console import Outlet

    script = script_of(arguments)
    saved = plan_asked_for(arguments, script)
    if not saved.plan:
        raise _nothing(script)
    if unconfirmed := caveat(saved):
        say(f"hasten: the plan is {unconfirmed}")
    Outlet(sys.stdout).write(as_code(saved.plan, script.label, saved.made_for, saved.measured))
    return 0


def _nothing(script: Script) -> Exception:
    from ..errors import UsageError

    return UsageError(
        f"there is no plan for {script.label} to export, or it is empty. Make one with: hasten tune "
        f"{script.label}; or name techniques: hasten export --use NAME {script.label}"
    )
