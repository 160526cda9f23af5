"""Earlier tunes in the journal: read, never written."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bench.stage import Stage
from ..errors import HastenError
from ..records.codec import from_json
from ..records.result import TuneResult
from ..records.trial import Trial
from ..scripts.sources import Sources, changed_since
from ..scripts.workspace import Workspace
from .journal_file import JournalFile, told
from .request import TuneRequest


@dataclass(frozen=True)
class PastTune:
    """``began`` in seconds since 1970. ``result`` is None if it did not reach one."""

    began: float
    state: str
    argv: tuple[str, ...]
    result: TuneResult | None = None


def identity_of(request: TuneRequest, stage: Stage, sources: Sources) -> dict[str, Any]:
    """How the journal identifies a tune. ``script`` is the same however its path is typed."""
    machine = stage.seen
    return {
        "script": Workspace(request.script).folder.name,
        "argv": list(stage.argv),
        "arguments": list(stage.argv[1:]),
        "digest": sources.digests().script,
        "machine": machine.identity,
        "environment": dict(machine.environment),
        "packages": {**machine.packages, **machine.libraries},
        "protected": stage.protect,
        "nproc": request.nproc,
        "backend": request.backend,
        "fresh": request.fresh,
        "budget_named": not request.budget_most,
    }


def past_tunes(workspace: Workspace) -> Iterator[PastTune]:
    """The script's tunes, last one first; those from versions that kept no results have none.

    Raises UnsafeFile if the journal is not ours, HastenError where a result cannot be read.
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
    """As ``identity_of`` made it; older versions wrote no "script"."""
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


# ---- comparisons that can be reused
_SAME = (
    "script", "arguments", "digest", "machine", "environment", "packages", "protected", "nproc", "backend",
    "versions",
)  # fmt: skip
_OVER = ("finished", "interrupted", "killed")  # not "failed": the files may have changed under it
_DAY_SECONDS = 86_400
_MOST_TRIALS = 10_000
_TRIALS = (
    "SELECT trial FROM trials WHERE tune = ? AND purpose = 'search' AND ended BETWEEN ? AND ? ORDER BY id "
    f"LIMIT {_MOST_TRIALS}"
)


@dataclass(frozen=True)
class Earlier:
    """What tunes of the same training left. ``trials``: the comparisons of their searches, in the order in
    which they ended; ``seconds``: what the last tune took that found a gain, and whose budget nobody had
    named; None if there is none.
    """

    trials: Sequence[Trial] = ()
    seconds: float | None = None


def earlier_tunes(request: TuneRequest, identity: Mapping[str, Any]) -> Earlier:
    """Those of the last day, for the same training as ``identity``: the same script with the same arguments
    and local modules, on this machine, with these versions. Nothing from before a tune that was asked to
    forget it. Unreadable comparisons are left out.

    Raises UnsafeFile if the journal is not ours, HastenError where a result cannot be read.
    """
    path, now = Workspace(request.script).journal_path, time.time()
    with closing(JournalFile(path, "ro")) as file:
        try:
            tunes = file.read(
                "SELECT id, identity, state FROM tunes WHERE began > ? ORDER BY id", (now - 2 * _DAY_SECONDS,)
            )
            same = _of_the_same(tunes, request, identity)
            rows = [row for number in same for row in file.read(_TRIALS, (number, now - _DAY_SECONDS, now))]
            unasked = [number for number, text, _ in tunes if _known(text).get("budget_named") is False]
            results = [_result(path, file, number) for number in same if number in unasked]
        except sqlite3.Error as error:
            raise told(path, error) from None
    trials = [trial for (text,) in rows if (trial := _trial(text)) is not None]
    gains = [result.tune_seconds for result in results if result is not None and result.outcome == "gain"]
    return Earlier(trials, gains[-1] if gains else None)


def _of_the_same(
    tunes: Iterable[tuple[int, str, str]], request: TuneRequest, identity: Mapping[str, Any]
) -> list[int]:
    same: list[int] = []
    now = json.loads(json.dumps(identity))
    for number, text, state in tunes:
        known = _known(text)
        if not _is_same(known, now, request):
            continue
        if known.get("fresh"):
            same.clear()
        if state in _OVER:
            same.append(number)
    return same


def _is_same(known: Mapping[str, Any], now: Mapping[str, Any], request: TuneRequest) -> bool:
    """``versions`` and ``modules`` are known once a script was watched."""
    modules = known.get("modules")
    if not isinstance(modules, dict) or any(known.get(key) != now.get(key) for key in _SAME):
        return False
    return not changed_since(request.script, modules)


def _trial(text: str) -> Trial | None:
    with suppress(TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return from_json(Trial, json.loads(text))
    return None
