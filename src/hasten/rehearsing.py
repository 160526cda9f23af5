"""Whether several ranks can train a script: asked of the script once, then remembered beside its plan."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import safe_files
from .bench.rehearsal import rehearse
from .bench.stage import Stage
from .errors import Refusal
from .launch.together import Wish
from .own_plan import prepare
from .records.codec import from_json, to_json
from .records.ranks import Findings
from .workspace import Script, Workspace

_FILE = "ranks.json"
_MOST_BYTES = 2**20


def findings_for(script: Script, wish: Wish, stage: Stage, say: Callable[[str], None]) -> Findings:
    """What a rehearsal found, now or earlier for the same script, arguments, machine and torch.

    Raises Refusal where the ranks would not train what one process trains, UnsafeFile where something else
    stands in the place of what was remembered, and all that ``rehearse`` raises.
    """
    workspace = Workspace(script)
    path = workspace.folder / _FILE
    identity = _identity(script, wish, stage)
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # but not UnsafeFile
        kept: dict[str, Any] = json.loads(safe_files.read(path, _MOST_BYTES))
        if kept["made_for"] == identity:
            return from_json(Findings, kept["findings"])
    say(f"rehearsing the first step in one process and in {wish.count}")
    found = rehearse(stage, wish)
    if found.refusals:
        raise Refusal(f"{script.label} cannot be trained by {wish.count} ranks: {'; '.join(found.refusals)}")
    prepare(workspace)
    safe_files.write(path, json.dumps({"made_for": identity, "findings": to_json(found)}).encode())
    return found


def _identity(script: Script, wish: Wish, stage: Stage) -> dict[str, Any]:
    """Equal where the findings carry over; as JSON gives it back."""
    return {
        "argv": list(script.argv),
        "digest": script.digest(),
        "machine": stage.machine.identity,
        "torch": importlib.metadata.version("torch"),
        "ranks": to_json(wish.rehearsed),
    }
