"""What earlier tunes have left in the journal: read, never written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bench.stage import Stage
from ..errors import HastenError
from ..records.codec import from_json
from ..records.result import TuneResult
from ..scripts.sources import Sources
from ..scripts.workspace import Workspace
from .journal_file import JournalFile, told


@dataclass(frozen=True)
class PastTune:
    """``began`` in seconds since 1970. ``result`` is None where it did not come to one."""

    began: float
    state: str
    argv: tuple[str, ...]
    result: TuneResult | None = None


def identity_of(workspace: Workspace, stage: Stage, sources: Sources) -> dict[str, Any]:
    """What the journal calls a tune by. ``script`` is the same however its path is typed."""
    return {
        "script": workspace.folder.name,
        "argv": stage.argv,
        "digest": sources.digests().script,
        "machine": stage.seen.identity,
    }


def past_tunes(workspace: Workspace) -> Iterator[PastTune]:
    """Those of the script, the last one first; of a version that kept no results none have one.

    Raises UnsafeFile where the journal is not ours, HastenError where a result cannot be read.
    """
    path = workspace.journal_path
    if not path.exists():
        return
    with closing(JournalFile(path, "ro")) as file:
        try:
            rows = file.read("SELECT id, began, identity, state FROM tunes ORDER BY id DESC")
            for number, began, identity, state in rows:
                known = _known(identity)
                if known.get("script") == workspace.folder.name:
                    result = _result(path, file, number)
                    yield PastTune(float(began), str(state), tuple(map(str, known["argv"])), result)
        except sqlite3.Error as error:
            raise told(path, error) from None


def _known(identity: str) -> dict[str, Any]:
    """As ``identity_of`` made it; older versions told no "script"."""
    try:
        found = json.loads(identity)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("argv"), list) else {}


def _result(path: Path, file: JournalFile, number: int) -> TuneResult | None:
    ((text,),) = file.read("SELECT result FROM tunes WHERE id = ?", (number,))
    try:
        data = json.loads(text) if text is not None else None
        return from_json(TuneResult, data) if data is not None else None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        raise HastenError(
            f"the result of tune {number} in {path} cannot be read: another version of hasten wrote it. "
            "Tune again"
        ) from None
