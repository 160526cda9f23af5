"""What the rows of ``benchmarks.search`` say, as a table in Markdown, and which bars are missed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hasten.records.plan import Plan
from hasten.records.trial import Ratio

from .search_curves import best_of, exhaustive_seconds, random_curves, score, seconds_to, times_of
from .search_rows import Row, Searched, newest, where

REGRET = 0.03  # that the plan found may be slower than the best
OF_EXHAUSTIVE = 1 / 10  # of the time of trying all plans
OF_OPTUNA = 1 / 5  # of Optuna's time to a plan as good, which may be slower by REGRET
SCORE = 0.8
NOT_MEASURED = "Not measured yet: `python -m benchmarks.search` does."


@dataclass(frozen=True)
class Judged:
    """A tune of a script. Times of plans are over the baseline's; None if something was not measured."""

    script: str
    plans: int  # in the space
    best: float
    found: float | None
    regret: Ratio | None  # the time under what was found over that under the best
    seconds: float  # of the tune, guard and confirmation included
    found_seconds: float  # after which what was found lay on disk, to stay
    exhaustive_seconds: float
    optuna_seconds: float | None
    score: float | None
    optuna_score: float | None

    @property
    def of_exhaustive(self) -> float:
        return self.seconds / self.exhaustive_seconds

    @property
    def of_optuna(self) -> float | None:
        """Infinite where what was found is no better than what everybody begins with."""
        if self.optuna_seconds is None:
            return None
        return self.seconds / self.optuna_seconds if self.optuna_seconds else math.inf

    @property
    def found_of_optuna(self) -> float | None:
        """The time of the search alone over Optuna's: neither has checked or confirmed anything by then."""
        return self.found_seconds / self.optuna_seconds if self.optuna_seconds else None

    @property
    def missed(self) -> list[str]:
        """The bars that are, in words; what was not measured is."""
        regret = self.regret.value - 1 if self.regret is not None else None
        held = {
            f"regret above {REGRET:.0%}": _at_most(regret, REGRET),
            f"more than {OF_EXHAUSTIVE:.2g} of the time of trying all": self.of_exhaustive <= OF_EXHAUSTIVE,
            f"more than {OF_OPTUNA:.2g} of Optuna's time": _at_most(self.of_optuna, OF_OPTUNA),
            f"score below {SCORE}": self.score is not None and self.score >= SCORE,
        }
        return [words for words, is_held in held.items() if not is_held]


def _at_most(value: float | None, bar: float) -> bool:
    return value is not None and value <= bar


def judged(script: str, searched: Searched) -> Iterator[Judged]:
    """One for each tune. Nothing of a script whose plans were not all timed."""
    if not searched.is_whole:
        return
    table = searched.in_space()
    drawn = random_curves(table)
    asked = searched.optuna["curves"] if searched.optuna is not None else None
    curves = [[(seconds, time) for seconds, time in curve] for curve in asked] if asked else None
    for tune in searched.tunes:
        plan = Plan.from_json(tune["plan"])
        found, everything = searched.time(plan), exhaustive_seconds(table)
        as_good = found * (1 + REGRET) if found is not None else None
        yield Judged(
            script=script,
            plans=len(table),
            best=times_of(table)[best_of(table)],
            found=found,
            regret=searched.regret(plan),
            seconds=tune["seconds"],
            found_seconds=found_after(tune),
            exhaustive_seconds=everything,
            optuna_seconds=seconds_to(as_good, curves, everything) if as_good and curves else None,
            score=score([searched.curve(tune)], table, drawn),
            optuna_score=score(curves, table, drawn) if curves else None,
        )


def found_after(tune: Row) -> float:
    """The seconds from which on the best plan so far was the one that the tune ended with."""
    curve = [(seconds, Plan.from_json(plan)) for seconds, plan in tune["curve"]]
    found = Plan.from_json(tune["plan"])
    others = [number for number, (_, plan) in enumerate(curve) if plan != found]
    after = others[-1] + 1 if others else 0
    return float(curve[after][0] if after < len(curve) else tune["seconds"])


def summary(rows: Sequence[Row]) -> str:
    """Of each script by its newest rows."""
    scripts = list(newest(rows))
    tunes = [one for script, searched in scripts for one in judged(script, searched)]
    if not tunes:
        return NOT_MEASURED
    of = {one.script for one in tunes}
    made = sorted({where(searched.rows[-1]) for script, searched in scripts if script in of})
    told = "; ".join(f"{machine}, torch {torch}, hasten {commit}" for machine, torch, commit in made)
    return "\n".join([*_HEAD, *map(_line, tunes), "", f"Measured on {told}."])


_HEAD = (
    "| script | plans | best | found | regret (95%) | found after | tune | over trying all | "
    "Optuna to as good | found after, over Optuna | tune over Optuna | score | Optuna's score | missed |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def _line(one: Judged) -> str:
    cells = [
        one.script,
        str(one.plans),
        _times_words(one.best),
        _times_words(one.found),
        _regret_words(one.regret),
        f"{one.found_seconds:.0f} s",
        f"{one.seconds:.0f} s",
        f"{one.of_exhaustive:.2f} of {one.exhaustive_seconds:.0f} s",
        f"{one.optuna_seconds:.0f} s" if one.optuna_seconds is not None else "-",
        _number(one.found_of_optuna),
        _number(one.of_optuna),
        _number(one.score),
        _number(one.optuna_score),
        ", ".join(one.missed) or "nothing",
    ]
    return f"| {' | '.join(cells)} |"


def _times_words(time: float | None) -> str:
    return f"{1 / time:.2f}x" if time is not None else "-"


def _number(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"


def _regret_words(found: Ratio | None) -> str:
    if found is None:
        return "-"
    return f"{found.value - 1:+.1%} ({found.low - 1:+.1%} to {found.high - 1:+.1%})"
