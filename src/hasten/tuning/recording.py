"""Writes every trial as soon as it is finished, to the journal and to its own folder."""

from __future__ import annotations

import json
import math
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from .. import safe_files
from ..bench.comparing.decisions import Effort
from ..bench.script_bench import ScriptBench
from ..bench.trials import Trials
from ..errors import HastenError
from ..lost_writes import why_lost
from ..records.caution import Caution
from ..records.codec import to_json
from ..records.plan import Plan
from ..records.result import TuneResult
from ..records.trial import Seen, Trial, Unseen
from ..scripts.workspace import Workspace
from .history import Earlier, earlier_tunes
from .journal import Journal
from .request import TuneRequest


def not_written_down(why: str) -> tuple[Caution, ...]:
    """Cautions about what could not be written; none if all was."""
    return (Caution("not written down", text=why),) if why else ()


def new_journal(journal: Journal) -> tuple[Caution, ...]:
    """If the old one was corrupt."""
    return (Caution("new journal", text=str(journal.aside)),) if journal.aside is not None else ()


def written_down(journal: Journal, result: TuneResult, path: Path) -> TuneResult:
    """``result``, once it is in the journal at ``path``; if it is not, it says so."""
    try:
        journal.conclude(result)
    except sqlite3.Error as error:
        if all(caution.code != "not written down" for caution in result.warnings):
            lost = not_written_down(why_lost(error, path))
            return replace(result, warnings=(*result.warnings, *lost))
    return result


class LoggedBench:
    """A bench whose finished trials survive a crash of ours: ``trials/NNN`` has command, output and
    numbers.
    """

    def __init__(
        self,
        bench: ScriptBench,
        trials: Trials,
        workspace: Workspace,
        journal: Journal,
        most_seconds: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """``most_seconds``: when a comparison that starts now is stopped, whatever it has found."""
        self._bench = bench
        self.most_seconds = most_seconds
        self._trials = trials
        self._workspace = workspace
        self._journal = journal
        self.lost = ""  # why a trial could not be written; its measurement still counts

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        return self._logged(lambda: self._bench.compare(a, b, seconds), "search")

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        self._trials.write_to(self._workspace.new_trial())
        with self._trials.limit.ending(self.most_seconds()):
            return self._bench.seek(a, b, seconds)

    def foreseen(self, a: Plan, b: Plan) -> float:
        return self._bench.foreseen(a, b)

    def method(self, a: Plan, b: Plan) -> str:
        """The method that would compare the two now."""
        return self._bench.method(a, b)

    def learn(self, trial: Trial) -> None:
        """An earlier tune's measurement shows costs, too."""
        self._bench.learn(trial)

    def confirm(self, plan: Plan, effort: Effort) -> Trial:
        """The confirmation of ``plan``, written down like every trial."""
        return self._logged(lambda: self._bench.confirm(plan, effort), "confirm")

    def _logged(self, measure: Callable[[], Trial], purpose: str) -> Trial:
        folder = self._workspace.new_trial()
        self._trials.write_to(folder)
        with self._trials.limit.ending(self.most_seconds()):
            trial = measure()
        try:
            self._write(folder, trial, purpose)
        except OSError as error:
            self.lost = self.lost or why_lost(error, folder)
        try:
            self.identify()
            self._journal.add(trial, purpose)
        except sqlite3.Error as error:
            self.lost = self.lost or why_lost(error, self._workspace.journal_path)
        if not self._workspace.journal_path.exists():  # SQLite goes on writing into a deleted file
            self.lost = self.lost or f"{self._workspace.journal_path} was removed meanwhile"
        return trial

    def identify(self, **more: object) -> None:
        """Write what is known by now about what is tuned: a training may import modules at any time."""
        if self._trials.sources is not None:
            more["modules"] = dict(self._trials.sources.digests().modules)
        try:
            self._journal.identify(**more)
        except sqlite3.Error as error:
            self.lost = self.lost or why_lost(error, self._workspace.journal_path)

    def earlier(self, request: TuneRequest) -> Earlier:
        """What earlier tunes of the same training left; nothing if the journal cannot be read."""
        with suppress(HastenError):
            return earlier_tunes(request, self._journal.identity)
        return Earlier()

    def _write(self, folder: Path, trial: Trial, purpose: str) -> None:
        safe_files.make_folder(folder)  # somebody may have deleted everything meanwhile
        safe_files.write(
            folder / "command", f"{shlex.join(self._trials.stage.argv)}\n".encode(errors="surrogateescape")
        )
        written = json.dumps({"purpose": purpose, **to_json(trial)}, indent=1)
        safe_files.write(folder / "trial.json", f"{written}\n".encode())
