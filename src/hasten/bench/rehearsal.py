"""Before a script is trained by several ranks: do they make of its first step what one process makes?"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from ..launch.together import Wish
from ..records.ranks import Findings
from .ending import ScriptOver, script_error

if TYPE_CHECKING:
    from .stage import Stage

SEED = 1


def rehearse(stage: Stage, wish: Wish) -> Findings:
    """Let one process train its first step, then the ranks, all on the same samples; nothing is kept of it.

    Raises ScriptError where the script fails by itself, Refusal where it never trains or trains where nobody
    can follow, WorkerError where a process ends otherwise.
    """
    folder = tempfile.mkdtemp(prefix="rehearsal-", dir=stage.aside)
    try:
        with stage.ranks(Wish(1), folder, None) as one:
            one.wait_started()
            stage.keep_preparations(one.ranks[0])
            alone = one.ranks[0].rehearsed()
    except ScriptOver as over:
        raise script_error(over.ended, stage.argv[0]) from None
    if alone.refusals:
        return alone
    try:
        with stage.ranks(wish, folder, alone) as group:
            group.wait_started()
            found = group.rehearsed()
    except ScriptOver as over:
        how = over.ended.detail.strip().splitlines()[-1] if over.ended.detail else over.ended.how
        return Findings(refusals=(f"it fails where its batches are smaller: {how}",))
    refusals = dict.fromkeys(reason for one_of_them in found for reason in one_of_them.refusals)
    return found[0] if not refusals else Findings(found[0].loader, refusals=tuple(refusals))
