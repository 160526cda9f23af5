"""Progress of a tune: a live line on a terminal, plain lines elsewhere, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from ..records.cause import Cause
from ..records.observation import Observation
from ..records.plan import Plan
from ..records.result import Tried
from ..records.spent import Spent
from ..saying import say
from ..units import seconds_words
from .console import open_console
from .reasons import reason_words
from .words import earlier_words, ratio_words, with_words

_TOLD_SECONDS = 0.05  # shorter parts of a comparison are not reported
_COUNTABLE = 1e7  # seconds: a longer budget is not counted down


class Silent:
    """Prints nothing: the null object, and base of the others. Each method is one of
    ``tuning.progress.Progress``.
    """

    def begin(self) -> None:
        pass

    def grown(self, budget: float, nothing_found: bool = False) -> None:
        pass

    def budget_of_run(self, budget: float, share: float, run: float) -> None:
        pass

    def remembered(self, comparisons: int, budget: float) -> None:
        pass

    def stage(self, text: str) -> None:
        pass

    def remark(self, text: str) -> None:
        pass

    def observed(self, observation: Observation, causes: Sequence[Cause]) -> None:
        pass

    def trying(self, technique: str, against: Plan) -> None:
        pass

    def tried(self, row: Tried) -> None:
        pass

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_START = "start"  # the start of a run: shortening it makes no training step faster


class Lines(Silent):
    """Plain lines, each with the seconds left of the budget."""

    def __init__(self, budget: float, stream: TextIO | None = None, debug: bool = False) -> None:
        """``debug``: for each comparison, say where its time went."""
        self._budget = budget
        self._debug = debug
        self._began = time.monotonic()
        self._stream = stream
        self._best = 1.0
        self._remark = ""  # the remark on the current stage
        self._before: tuple[Plan, float] | None = (
            None  # what the last gain was against, and how fast that was
        )

    def begin(self) -> None:
        self._began = time.monotonic()

    def grown(self, budget: float, nothing_found: bool = False) -> None:
        self._budget = budget
        why = (
            "nothing was found yet, so the search goes on"
            if nothing_found
            else "an honest answer takes longer here"
        )
        self._done(f"{why}: the budget is {budget:.0f} s (--budget sets another)")

    def budget_of_run(self, budget: float, share: float, run: float) -> None:
        self._budget = budget
        self._done(
            f"a run takes about {seconds_words(run)}, as far as was seen: the budget is "
            f"{seconds_words(budget)}, {100 * share:g}% of that"
        )

    def remembered(self, comparisons: int, budget: float) -> None:
        words = f"earlier tunes made {comparisons} comparisons (--fresh measures them again)"
        if budget < self._budget:
            words += f", so the budget is {budget:.0f} s (--budget sets another)"
        self._budget = budget
        self.stage(words)

    def stage(self, text: str) -> None:
        self._remark = ""
        self._say(text)

    def remark(self, text: str) -> None:
        if text != self._remark:
            self._done(text)
            self._remark = text

    def observed(self, observation: Observation, causes: Sequence[Cause]) -> None:
        for cause in causes:
            self._done(cause.told())

    def trying(self, technique: str, against: Plan) -> None:
        self._remark = ""
        against = against.without(technique)
        others = f" in combination with {with_words(against)}" if against else ""
        self._say(f"trying {technique}{others}")

    def tried(self, row: Tried) -> None:
        if row.kept and row.ratio is not None and not row.ablation and _START not in row.parts:
            if self._before is None or self._before[0] != row.against:  # otherwise a setting replaced it
                self._before = (row.against, self._best)
            self._best = self._before[1] / row.ratio.value
        measured = f" {ratio_words(row.ratio)}:" if row.ratio is not None else ""
        best = f" (best so far about {self._best:.2f} times faster)" if self._best > 1 else ""
        self._done(f"{row.technique}:{measured} {reason_words(row.reason)}{earlier_words(row)}{best}")
        if self._debug and row.spent is not None:
            self._done(f"  {spent_words(row.spent)}")

    def left(self) -> float:
        """Seconds of the budget left."""
        return max(0.0, self._budget - (time.monotonic() - self._began))

    def _say(self, text: str) -> None:
        say(f"[{left_words(self.left())} s left] {text}", stream=self._stream)

    def _done(self, text: str) -> None:
        say(f"             {text}", stream=self._stream)


class Terminal(Lines):
    """The same on a terminal, with a status line at the bottom."""

    def __init__(self, budget: float, debug: bool = False) -> None:
        super().__init__(budget, debug=debug)
        from rich.progress import Progress as Bar
        from rich.progress import ProgressColumn, SpinnerColumn, Task, TextColumn
        from rich.text import Text

        left = self.left

        class TimeLeft(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(f"about {left_words(left()).strip()} s left")

        self._console = open_console(sys.stderr)
        what = TextColumn("{task.description}", markup=False)
        bar = Bar(SpinnerColumn(), what, TimeLeft(), console=self._console, transient=True)
        self._task = bar.add_task("starting", total=budget)
        self._bar = bar

    def __enter__(self) -> Terminal:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _say(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def _done(self, text: str) -> None:
        self._console.print(f"  {text}")


def left_words(seconds: float) -> str:
    """Seconds without their unit, aligned; a budget may have any size."""
    return f"{seconds:3.0f}" if seconds < _COUNTABLE else f"{seconds:.1e}"


_PARTS = {
    "rehearsing": "rehearsing several processes",
    "starting": "starts",
    "settling": "warm-up and set-up",
    "timing": "timed steps",
    "waiting": "other programs",
    "rest": "all else",
}


def spent_words(spent: Spent) -> str:
    """Where a comparison's time went, largest first; parts that took none are left out."""
    parts = sorted(((getattr(spent, part), words) for part, words in _PARTS.items()), reverse=True)
    told = [f"{seconds_words(seconds)} {words}" for seconds, words in parts if seconds >= _TOLD_SECONDS]
    return f"took {seconds_words(sum(seconds for seconds, _ in parts))}: {', '.join(told)}"


def progress_for(budget: float, quiet: bool, debug: bool = False) -> Silent:
    """The display that suits standard error."""
    if quiet:
        return Silent()
    return Terminal(budget, debug) if sys.stderr.isatty() else Lines(budget, debug=debug)
