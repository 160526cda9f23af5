"""Keeps the best plan so far on disk during a tune: whatever ends it, the plan is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UsageError
from ..lost_writes import why_lost
from ..plans import unconfirmed
from ..plans.saving import made_for
from ..records.facts import Facts
from ..records.plan import BASELINE, Plan
from ..records.result import Tried
from ..scripts.sources import Sources
from ..scripts.workspace import Workspace
from .accuracy import Held
from .conclusion import versions_of
from .request import TuneRequest


class Keeping:
    """Follows a search as it goes on. Writes nothing before something was adopted: what an earlier tune left
    stays until then.
    """

    def __init__(self, workspace: Workspace, made_for: Callable[[], Mapping[str, Any]]) -> None:
        self._workspace = workspace
        self._made_for = made_for
        self._begun = False
        self._searched = BASELINE  # the search's plan at the last look
        self._kept = BASELINE, unconfirmed.NOT_CHECKED  # what is on disk
        self.lost = ""  # why a plan could not be written; the tune goes on

    def adopted(self, row: Tried, plan: Plan) -> None:
        """The search added a row, having found ``plan`` so far."""
        if row.kept and not row.ablation:
            self._begun = True
            new = row.together or row.reason.along.adding(row.technique, row.settings)
            self._keep(Plan({**plan.techniques, **new.techniques}))

    def found(self, plan: Plan) -> None:
        """The search has found ``plan`` so far."""
        if self._begun and plan != self._searched:
            self._keep(plan)
        self._searched = plan

    def checked(self, held: Held) -> None:
        """The guard has checked all that was found: what it stopped is no longer kept."""
        if not self._begun or held.verdict is None:
            return
        if held.verdict.unchecked:
            self._keep(self._searched.only(set(self._searched.techniques) - _stopped(held)))
        else:
            self._keep(held.plan if held.verdict.passed else BASELINE, unconfirmed.HELD)

    def _keep(self, plan: Plan, accuracy: str = unconfirmed.NOT_CHECKED) -> None:
        if (plan, accuracy) == self._kept:
            return
        try:
            unconfirmed.keep(self._workspace, plan, self._made_for(), accuracy)
        except (OSError, UsageError) as error:
            path = self._workspace.unconfirmed_path
            self.lost = self.lost or (why_lost(error, path) if isinstance(error, OSError) else str(error))
        else:
            self._kept = plan, accuracy


def _stopped(held: Held) -> set[str]:
    return {row.technique for row in held.stopped}


def keeping_for(request: TuneRequest, workspace: Workspace, facts: Facts, sources: Sources) -> Keeping:
    """What keeps the best plan so far of one tune."""
    machine = facts.machine

    def written_for() -> dict[str, object]:
        how = machine.identity, machine.cpu_flags, versions_of(facts), request.nproc
        return made_for(workspace.script, sources.digests(), *how)

    return Keeping(workspace, written_for)
