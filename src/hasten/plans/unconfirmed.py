"""The best plan that a tune has found so far, before it is confirmed: ``plan.unconfirmed.toml``.

It is next to ``plan.toml`` and never replaces it, so a plan that an earlier tune confirmed stays in force.
Its gain is a guess and its accuracy may not have been checked, so nothing trains under it automatically,
whatever the risk of its techniques: it must be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from .. import safe_files
from ..errors import UsageError
from ..records.plan import Plan
from ..scripts.workspace import Workspace
from .files import SavedPlan, read_own_plan, write_plan

_HEADER = """\
# Found by hasten tune, which ended before it was confirmed.
# To train under it anyway, name this file: hasten run --plan FILE SCRIPT
"""
OUTCOME = "not-confirmed"  # in the plan's table ``measured``, where a confirmed one has "gain"
HELD, NOT_CHECKED = "held", "not checked"  # its accuracy, in the same table


def keep(workspace: Workspace, plan: Plan, made_for: Mapping[str, Any], accuracy: str = NOT_CHECKED) -> None:
    """Replace what was kept, atomically; the empty plan is not kept. Raises OSError, or UsageError if the
    file there is not ours.
    """
    if not plan:
        forget(workspace)
        return
    measured = {"date": date.today().isoformat(), "outcome": OUTCOME, "accuracy": accuracy}
    workspace.make()  # somebody may have deleted everything meanwhile
    write_plan(workspace.unconfirmed_path, SavedPlan(plan, made_for, measured), _HEADER)


def forget(workspace: Workspace) -> None:
    """Call it once the plan is confirmed, or refuted. Raises like ``keep``."""
    safe_files.remove(workspace.unconfirmed_path)


def kept(workspace: Workspace) -> SavedPlan | None:
    """What an unfinished tune had found. An unreadable file counts as none."""
    saved = None
    with suppress(UsageError):
        saved = read_own_plan(workspace.unconfirmed_path)
    return saved if saved is not None and caveat(saved) else None


def caveat(saved: SavedPlan) -> str:
    """What to know about an unconfirmed plan; "" for any other."""
    if saved.measured.get("outcome") != OUTCOME:
        return ""
    if saved.measured.get("accuracy") == HELD:
        unknown = "Its accuracy held in the compared steps; its gain is a guess"
    else:
        unknown = "Its gain is a guess, and its accuracy was not checked"
    return f"not confirmed: the tune that found it ended before that. {unknown}"
