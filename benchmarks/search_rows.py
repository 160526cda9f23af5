"""The rows of ``benchmarks.search``: kept by machine, torch and commit, and what they say of one script."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hasten.bench.comparing.statistics import interval
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Ratio

from .false_wins import rows_of
from .results import now
from .search_curves import Cell, Curve, Table
from .search_space import Axes, from_json, plans_of

Row = dict[str, Any]
_WHERE = ("machine", "torch", "commit")


class Book:
    """A file of rows, and those in it that were measured here with hasten as it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._where = {
            "machine": this_machine().identity,
            "torch": version("torch"),
            "commit": source_commit(),
        }
        self.rows = [row for row in rows_of(path) if where(row) == tuple(self._where.values())]

    def of(self, script: str) -> Searched:
        return Searched([row for row in self.rows if row["script"] == script])

    def keep(self, row: Row) -> None:
        """Appended at once, so that nothing is lost when it is stopped."""
        self.rows.append({**row, "ended": now(), **self._where})
        self._path.parent.mkdir(exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")


def where(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _WHERE)


def newest(rows: Sequence[Row]) -> Iterator[tuple[str, Searched]]:
    """Of each script, by hasten as it was when the last of its rows was measured."""
    for script in dict.fromkeys(row["script"] for row in rows):
        mine = [row for row in rows if row["script"] == script]
        yield script, Searched([row for row in mine if where(row) == where(mine[-1])])


def source_commit() -> str:
    """The last one that changed what is measured; with a plus where it was changed since. The rows themselves
    are kept in the same repository, and are no such change.
    """
    source = ["--", "src"]
    last = _git("log", "-1", "--format=%h", *source)
    return last + ("+" if last and _git("status", "--porcelain", *source) else "")


def _git(*words: str) -> str:
    """What it prints; "" if there is no repository."""
    try:
        command = ["git", *words]
        return subprocess.check_output(command, cwd=Path(__file__).parent.parent, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


class Searched:
    """What is known of one script, all of it measured on one machine with one hasten."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def of_kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row["kind"] == kind]

    @property
    def axes(self) -> Axes | None:
        """None before the script was watched."""
        found = self.of_kind("space")
        return from_json(found[-1]["axes"]) if found else None

    @property
    def tunes(self) -> list[Row]:
        return self.of_kind("tune")

    def timed_in(self, number: int) -> list[Plan]:
        """The plans of all processes of a round so far."""
        return [Plan.from_json(row["plan"]) for row in self.of_kind("timed") if row["round"] == number]

    @property
    def is_whole(self) -> bool:
        """Whether each plan of the space was timed."""
        return self.axes is not None and not set(plans_of(self.axes)) - set(self.timed_in(0))

    def table(self, rounds: int | None = None) -> Table:
        """Of all plans that were timed, those of tunes that are not in the space included; of the first
        ``rounds``, None for all.
        """
        rows = [row for row in self.of_kind("timed") if rounds is None or row["round"] < rounds]
        usual = _usual(rows)
        by_plan: dict[Plan, list[Row]] = {}
        for row in rows:
            if row["round"] in usual:
                by_plan.setdefault(Plan.from_json(row["plan"]), []).append(row)
        return {plan: _cell(plan, mine, usual) for plan, mine in by_plan.items()}

    def in_space(self) -> Table:
        """The table of the space alone, of which other searches know. Only once it is whole."""
        assert self.axes is not None
        table = self.table()
        return {plan: table[plan] for plan in plans_of(self.axes)}

    def curve(self, tune: Row) -> Curve:
        """The times of what a tune had found so far; a plan that failed counts as the baseline."""
        return [(seconds, self.time(Plan.from_json(plan)) or 1.0) for seconds, plan in tune["curve"]]

    def time(self, plan: Plan) -> float | None:
        cell = self.table().get(plan)
        return cell.time if cell is not None else None

    def regret(self, found: Plan) -> Ratio | None:
        """The time under ``found`` over that under the best, by pairs of fresh processes; None if the two
        were not compared. Where several plans may be the best, the worst for ``found``.
        """
        duels = [row for row in self.of_kind("duel") if Plan.from_json(row["found"]) == found]
        ratios = [interval(row["log_ratios"], "pairs") for row in duels]
        return max((ratio for ratio in ratios if ratio is not None), key=lambda r: r.value, default=None)

    @property
    def optuna(self) -> Row | None:
        """What Optuna would have found; None if not asked it about all rows that there are."""
        asked = [row for row in self.of_kind("optuna") if row["timed"] == len(self.of_kind("timed"))]
        return asked[-1] if asked else None


def _usual(rows: Sequence[Row]) -> dict[int, float]:
    """The baseline's seconds in each round, the median of its processes."""
    seconds: dict[int, list[float]] = {}
    for row in rows:
        if Plan.from_json(row["plan"]) == BASELINE and (took := _seconds(row)) is not None:
            seconds.setdefault(row["round"], []).append(took)
    return {number: median(found) for number, found in seconds.items()}


def _cell(plan: Plan, rows: Sequence[Row], usual: dict[int, float]) -> Cell:
    """The mean over rounds, of logarithms; a plan that failed once has failed."""
    cost = fmean(row["seconds"] for row in rows)
    ratios = [took / usual[row["round"]] for row in rows if (took := _seconds(row)) is not None]
    failed = len(ratios) < len(rows)
    if failed or plan == BASELINE:
        return Cell(None if failed else 1.0, cost)
    return Cell(math.exp(fmean(map(math.log, ratios))), cost)


def _seconds(row: Row) -> float | None:
    """Of a sample, or of a whole run if runs were timed; None if it failed."""
    found: float | None = row["run_seconds"] if "run_seconds" in row else row["sample_seconds"]
    return found
