"""Before a script is trained by several ranks: do they make of its first step what one process makes?"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import WorkerError
from ..launch.together import Wish
from ..records.ranks import Findings
from .ending import ScriptOver, last_line, too_short
from .printed import difference

if TYPE_CHECKING:
    from .group import WorkerGroup
    from .stage import Stage

SEED = 1
_MOST_STEPS = 100  # that follow the first
_SECONDS = 5.0  # for them
_PATIENCE = 4  # times as long may the ranks take, which are not yet at their best
_AT_ONCE = 10


def rehearse(stage: Stage, wish: Wish) -> Findings:
    """Let one process train its first step, then the ranks, all on the same samples; nothing is kept of it.

    Both go on for some steps then, and what they print is compared. Raises ScriptError where the script fails
    by itself, Refusal where it never trains or trains where nobody can follow, WorkerError where a process
    ends otherwise.
    """
    try:
        return _rehearsed(stage, wish)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the rehearsal was interrupted") from None


def _rehearsed(stage: Stage, wish: Wish) -> Findings:
    folder = tempfile.mkdtemp(prefix="rehearsal-", dir=stage.aside)
    printed: list[bytes] = []
    try:
        with stage.ranks(Wish(1), folder, None, printed.append) as one:
            one.wait_started()
            stage.keep_preparations(one)
            alone = one.rehearsed()[0]
            steps = 0
            if not alone.refusals:
                with suppress(ScriptOver, WorkerError):  # what fails later on fails in the training, too
                    steps = _go_on(one, _MOST_STEPS)
    except ScriptOver as over:
        raise too_short(over.ended, one.child, stage.argv[0], stage.trial_folder) from None
    if alone.refusals:
        return alone
    by_ranks: list[bytes] = []
    try:
        with stage.ranks(wish, folder, alone, by_ranks.append) as group:
            group.wait_started()
            found = group.rehearsed()
            if not any(one_of_them.refusals for one_of_them in found):
                _go_on(group, steps, _PATIENCE * _SECONDS)
    except ScriptOver as over:
        how = last_line(over.ended.detail) if over.ended.detail else over.ended.how
        return Findings(refusals=(f"it fails where its batches are smaller: {how}",))
    refusals = dict.fromkeys(reason for one_of_them in found for reason in one_of_them.refusals)
    if refusals:
        return replace(found[0], refusals=tuple(refusals))
    other = difference(_text(printed), _text(by_ranks))
    if not other:
        return found[0]
    remark = (
        f"{other}: what it computes, or copies, of its part of a batch before backward() is rank 0's alone"
    )
    return replace(found[0], remarks=(*found[0].remarks, remark))


def _go_on(worker: WorkerGroup, most: int, seconds: float = _SECONDS) -> int:
    """Train up to ``most`` steps, as long as there is time; how many were."""
    began, done = time.monotonic(), 0
    try:
        while done < most and time.monotonic() - began < seconds:
            worker.steps(min(_AT_ONCE, most - done))
            done += min(_AT_ONCE, most - done)
    except ScriptOver as over:
        if over.ended.how != "completed":
            raise
        done += len(over.ended.steps)
    return done


def _text(lines: list[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode(errors="replace").strip())]
