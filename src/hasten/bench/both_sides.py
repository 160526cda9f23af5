"""The two sides of a rehearsal: one process that trains a script, and the ranks, in one folder."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import WorkerError
from ..inside.job import DIFFERENT, IN_FLOAT64, SHORT, WITH_SUM
from ..launch.ranks_of_plan import Wish
from ..records.ranks import Findings
from .other_hosts import OtherHosts
from .workers.ending import BudgetOver, ScriptOver, raised, too_short

if TYPE_CHECKING:
    from .trials import Trials
    from .workers.worker_group import WorkerGroup

_STEPS = 400  # after the first
_MOST_STEPS = 2000  # if two epochs end within these
_SECONDS = 5.0  # for these
_PATIENCE = 4  # the ranks may take this many times as long: they are not at their best yet
_AT_ONCE = 10
_AT_ONCE_IF_SHORT = 3  # an epoch, and perhaps an evaluation


@dataclass(frozen=True)
class Alone:
    """What one process did in ``folder``. ``failed``: its script raised something."""

    folder: str
    findings: Findings
    steps: int
    printed: list[str]
    failed: bool


def train_alone(trials: Trials, *files: str, steps: int | None = None) -> Alone:
    """``files``: names that configure the rehearsal. ``steps``: after the first, at most; None: as many as
    show what happens at the end of epochs, if these are not too long.
    """
    folder = tempfile.mkdtemp(prefix="rehearsal-", dir=trials.aside)
    for name in files:
        Path(folder, name).touch()
    printed: list[bytes] = []
    try:
        with trials.ranks(Wish(1), folder, None, printed.append) as one:
            one.wait_started()
            trials.keep_preparations(one)
            findings = one.rehearsed()[0]
            most = _enough_for(findings) if steps is None else steps
            most = 0 if findings.refusals else most
            done, failed = _go_on(one, most, OtherHosts(None), _SECONDS, _at_once(SHORT in files))
    except ScriptOver as over:
        if IN_FLOAT64 in files:
            return Alone(folder, Findings(), 0, [], failed=True)
        raise too_short(over.ended, one.child, trials.stage.argv[0], trials.folder) from None
    return Alone(folder, findings, done, _text(printed), failed)


def train_together(
    trials: Trials, wish: Wish, alone: Alone, others: OtherHosts
) -> tuple[Findings, list[str]]:
    """What the ranks found, and what rank 0 printed."""
    printed: list[bytes] = []
    for told_before in Path(alone.folder).glob(DIFFERENT):
        told_before.unlink()
    with (
        trials.ranks(wish, alone.folder, alone.findings, printed.append) as group,
        others.waiting_with(group),
    ):
        found = _first_passes(group)
        refusals = others.refusals(found.refusals)
        found = replace(found, loss=others.of_rank_0(found.loss))
        if not refusals and _weighed(found, alone):
            short = SHORT in files_of(alone.folder)
            _, failed = _go_on(group, alone.steps, others, _PATIENCE * _SECONDS, _at_once(short))
            told = sorted(Path(alone.folder).glob(DIFFERENT))
            why = others.first(told[0].read_text(encoding="utf-8") if told else "")
            if failed and not alone.failed and not why:
                why = "after some steps its ranks no longer do the same, or one of them fails"
            refusals = (why,) if why else ()
    return replace(found, refusals=refusals), _text(printed)


def _first_passes(group: WorkerGroup) -> Findings:
    """What the first of these ranks found, with the refusals of all."""
    try:
        group.wait_started()
        found = group.rehearsed()
    except ScriptOver as over:
        how = raised(over.ended.detail) if over.ended.detail else over.ended.how
        return Findings(refusals=(f"it fails where its batches are smaller: {how}",))
    return replace(found[0], refusals=tuple(dict.fromkeys(why for one in found for why in one.refusals)))


def _weighed(found: Findings, alone: Alone) -> bool:
    """Whether the ranks summed their gradients with the weights that they found to be right."""
    return found.loss == "mean" or WITH_SUM in files_of(alone.folder)


def files_of(folder: str) -> list[str]:
    """The names of files there that configure a rehearsal, except those for clocks."""
    return [name for name in (IN_FLOAT64, WITH_SUM, SHORT) if Path(folder, name).exists()]


def _enough_for(findings: Findings) -> int:
    """Steps: more than usual if two epochs end soon after these."""
    loader = findings.loader
    if loader is None or not loader.samples or not loader.batch_size:
        return _STEPS
    two_epochs = 2 * math.ceil(loader.samples / loader.batch_size) + 1
    return max(_STEPS, two_epochs) if two_epochs <= _MOST_STEPS else _STEPS


def _at_once(short: bool) -> int:
    return _AT_ONCE_IF_SHORT if short else _AT_ONCE


def _go_on(
    worker: WorkerGroup, most: int, others: OtherHosts, seconds: float, at_once: int = _AT_ONCE
) -> tuple[int, bool]:
    """Train up to ``most`` steps, as long as there is time. Returns their number, and whether it failed."""
    began, done, how = time.monotonic(), 0, ""
    while done < most and not how:
        try:
            worker.steps(min(at_once, most - done))
            done += min(at_once, most - done)
            how = "" if time.monotonic() - began < seconds else "over"
        except ScriptOver as over:
            how = "over" if over.ended.how == "completed" else "failed"
            done += len(over.ended.steps) + (how == "over")  # ranks would go on with one more
        except BudgetOver:
            raise
        except WorkerError:
            how = "failed"
        how = others.worst(how)
    return done, how == "failed"


def _text(lines: list[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode(errors="replace").strip())]
