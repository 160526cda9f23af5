"""The plan in a script's own folder: also found where older versions kept it, and never another script's.

They named a folder after the script alone, so ``a/train.py`` and ``b/train.py`` shared one. Which script's
plan it holds is in what the plan was made for.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .. import safe_files
from ..errors import PlanError, UnsafeFile
from ..scripts.folder_names import folder_name, named_by, old_folder_name
from ..scripts.workspace import Script, Workspace
from .files import SavedPlan, read_own_plan


def own_plan(workspace: Workspace) -> tuple[SavedPlan | None, str]:
    """The plan to use or None, and a message if the one there is not this script's.

    Raises PlanError if it is broken or not this user's file.
    """
    put_in_order(workspace)
    saved = read_own_plan(workspace.plan_path)
    if saved is None or _is_for(saved, workspace.script):
        return saved, ""
    label = workspace.script.label
    return None, (
        f"the plan in {workspace.plan_path} was made for another script, {saved.made_for['script']!r}, and "
        f"is not used; to train under it anyway: hasten run --plan {workspace.plan_path} {label}"
    )


def prepare(workspace: Workspace) -> None:
    """Create the script's folder, or find it where an older version left it. Raises as ``Workspace.make``."""
    put_in_order(workspace)
    workspace.make()


def put_in_order(workspace: Workspace) -> None:
    """Move folders left by older versions to the scripts whose plans are in them."""
    old = workspace.root / old_folder_name(workspace.script.path, workspace.script.module)
    with suppress(OSError, UnsafeFile):
        for folder in dict.fromkeys((workspace.folder, old)):
            name = _belongs_at(folder)
            if name not in (None, folder.name):
                safe_files.move(folder, folder.with_name(name))


def _belongs_at(folder: Path) -> str | None:
    """The name of the folder for the script whose plan is there; None if unknown, or if an
    older version cannot have put it there: what a person put there stays.
    """
    saved = None
    with suppress(PlanError):
        saved = read_own_plan(folder / "plan.toml")
    owner = _made_for(saved) if saved is not None else None
    return folder_name(*owner) if owner is not None and old_folder_name(*owner) == folder.name else None


def _is_for(saved: SavedPlan, script: Script) -> bool:
    """Whether a plan is for this script, also if that was renamed since, with its folder."""
    owner = _made_for(saved)
    return (
        owner is None
        or folder_name(*owner) == folder_name(script.path, script.module)
        or saved.made_for.get("digest") == script.digest()
    )


def _made_for(saved: SavedPlan) -> tuple[Path, str | None] | None:
    """Path and module of the script that a plan was made for, if it says so."""
    label = saved.made_for.get("script")
    return named_by(label) if isinstance(label, str) and "\0" not in label else None
