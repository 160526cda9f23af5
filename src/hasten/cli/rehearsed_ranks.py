"""Ranks of a script that knows of none, on this host: rehearsed, before they train."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..bench.trials import Trials
    from ..inside.job import Job
    from ..launch.ranks import Rank
    from ..launch.ranks_of_plan import Wish
    from ..launch.rendezvous import Place
    from ..launch.world import World
    from ..records.ranks import Findings
    from ..scripts.workspace import Script


@dataclass(frozen=True)
class Rehearsed:
    """``place``: where ranks meet. ``through``: folders that all ranks write to."""

    found: Findings
    trials: Trials
    place: Place
    through: tuple[str, ...]

    def protected(self, ranks: Sequence[Rank]) -> list[Rank]:
        """The ranks, with what they write put aside, but for samples and checkpoints that are kept."""
        sandbox = self.trials.sandbox
        sandbox = replace(sandbox, through=(*sandbox.through, *self.through))
        return [replace(rank, job=replace(rank.job, sandbox=sandbox)) for rank in ranks]


@contextmanager
def rehearsed(
    job: Job, script: Script, wish: Wish, say: Callable[[str], None], world: World | None = None
) -> Iterator[Rehearsed]:
    """Raises Refusal if ranks do not train what one process does. ``world``: of several hosts."""
    from ..bench.stage import Stage
    from ..bench.trials import Trials
    from ..launch.rendezvous import private_place
    from ..plans.own import prepare
    from ..scripts.sources import Sources
    from ..scripts.workspace import Workspace
    from ..tuning.rehearsing import findings_for

    workspace = Workspace(script)
    prepare(workspace)
    stage = Stage(
        argv=job.argv, module=job.module, machine=job.machine, environment=os.environ, folders=script.folders,
        world=world,
    )  # fmt: skip
    trials = Trials(stage, workspace.new_trial(), Sources(script, "rehearsed"))
    with trials, private_place() as place:
        found = findings_for(script, wish, trials, say)
        for remark in found.remarks:
            say(f"differs from one process: {remark}")
        say("compared with one process: the first steps, and single later ones (on CPUs)")
        kept = job.checkpoints.folder if job.checkpoints is not None else ""
        yield Rehearsed(found, trials, place, tuple(folder for folder in (job.samples, kept) if folder))
