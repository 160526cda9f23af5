"""Is the plan that a tune finds nearly the best there is, and what did finding it cost?

    python -m benchmarks.search [SCRIPT ...] [--rounds N] [--tunes N] [--budget SECONDS] [--seconds SECONDS]

Over a space that is small enough to try all of it (``search_space.py``), for each script:

1. tunes that try nothing else (``hasten tune --only``), with the best plan so far at every moment, as it lies
   on disk, and the time of the whole, guard and confirmation included;
2. every plan of the space, timed by one fresh process alone, in a new order for each round, a process
   of the baseline before every fourth; a plan's time is over the median of the round's baselines. After the
   first round only those are timed again that were nearly the best. One script's plans are timed by whole
   runs: no step shows what is done to evaluations;
3. the plan found against the three that look best, by pairs of fresh processes that chose nothing: the least
   of many times is least by luck, too, so the table cannot say how much slower what was found is;
4. Optuna and random search over the same space, simulated: they ask, the table answers
   (``search_curves.py``). They need not hold accuracy nor confirm anything, and a plan that the guard refuses
   counts as found by them and as missed by hasten.

Rows are appended to ``benchmarks/results/search.jsonl``; what the file has of this machine, torch and hasten
is not measured again, so it can be stopped and gone on with. Nothing else may run on the machine meanwhile.
It fails where a bar is missed, or was not measured yet. ``benchmarks.measuring`` puts it on the page.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hasten.bench.comparing.pairs import MeasureFailed, PairsBench
from hasten.bench.observe import observe
from hasten.bench.workers.ending import PlanRefused, ScriptOver
from hasten.cli.tune import DEFAULT_BUDGET
from hasten.errors import WorkerError
from hasten.examples import path
from hasten.plans import unconfirmed
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from hasten.scripts.workspace import Workspace, find_script

from .cures import WORKLOADS
from .disturbed import tuned
from .false_wins import inside
from .results import FOLDER
from .search_curves import optuna, optuna_curves, times_of
from .search_rows import Book, Row, Searched
from .search_space import EVALUATION, TECHNIQUES, plans_of, space_for, to_json
from .search_summary import judged, summary
from .staging import staged
from .whole_plans import WholeRuns

FILE = FOLDER / "search.jsonl"


@dataclass(frozen=True)
class Searching:
    """What is trained. ``whole``: a plan's time is that of a whole run, in which evaluation counts as well;
    else that of a sample in regular steps.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    whole: bool = False

    @property
    def words(self) -> list[str]:
        return [str(self.script), *self.arguments]

    @property
    def unit(self) -> str:
        """In which rows tell a plan's time."""
        return "run_seconds" if self.whole else "sample_seconds"


SCRIPTS = {
    "fashion_cnn": Searching(path("fashion_cnn")),
    "bn_cnn": Searching(path("bn_cnn")),
    "whole_evaluation": Searching(WORKLOADS / "long_evaluation.py", whole=True),
    "long_evaluation": Searching(WORKLOADS / "long_evaluation.py"),
    "padded_text": Searching(WORKLOADS / "padded_text.py"),
    "residual": Searching(WORKLOADS / "cnns.py", ("residual",)),
}
ROUNDS = 3
EVERY = 4  # plans, a process of the baseline
NEAR = 1.15  # times the best: what is timed again
CHALLENGERS = 3  # plans that may be better than the one found
PAIRS = 10  # with each of them
_LOOK_SECONDS = 0.25  # between two looks at what a tune has found

Timing = PairsBench | WholeRuns
Held = tuple[float, Plan]  # the best so far, from these seconds on


@dataclass(frozen=True)
class Asked:
    """How much is to be measured. ``ends``: by time.monotonic(), after which nothing is begun."""

    rounds: int
    tunes: int
    budget: float
    ends: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", default=tuple(SCRIPTS), metavar="SCRIPT")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="that the file shall have of each script")
    parser.add_argument("--tunes", type=int, default=1, help="likewise")
    parser.add_argument("--budget", type=float, default=DEFAULT_BUDGET, metavar="SECONDS", help="of a tune")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so many")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    if unknown := set(arguments.scripts) - set(SCRIPTS):
        parser.error(f"there is no script {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    optuna()  # what is missing is said before an hour is spent
    ends = time.monotonic() + arguments.seconds
    asked = Asked(arguments.rounds, arguments.tunes, arguments.budget, ends)
    book = Book(arguments.file)
    for name in arguments.scripts:
        measure(name, book, asked)
    print(summary([row for row in book.rows if row["script"] in arguments.scripts]))
    wrong = [name for name in arguments.scripts if not is_held(name, book.of(name))]
    if wrong:
        raise SystemExit(f"not all bars are held, or not all was measured: {', '.join(wrong)}")


def is_held(name: str, searched: Searched) -> bool:
    tunes = list(judged(name, searched))
    return bool(tunes) and not any(one.missed for one in tunes)


def measure(name: str, book: Book, asked: Asked) -> None:
    """What the book does not have yet, as far as there is time."""
    tune(name, book, asked)
    if not (asked.is_over or is_measured(book.of(name), asked.rounds)):
        with begun(name) as (bench, facts):
            if book.of(name).axes is None:
                axes = space_for(facts, SCRIPTS[name].whole)
                book.keep({"kind": "space", "script": name, "axes": to_json(axes)})
            for number in range(asked.rounds):
                time_plans(name, number, bench, book, asked)
            compare_with_best(name, bench, book, asked)
    ask_optuna(name, book)


def is_measured(searched: Searched, rounds: int) -> bool:
    """All but the tunes."""
    return (
        searched.is_whole
        and not any(left_of(number, searched) for number in range(rounds))
        and not duels(searched)
    )


# ---- tunes
def tune(name: str, book: Book, asked: Asked) -> None:
    done = [row["number"] for row in book.of(name).tunes]
    for number in range(asked.tunes):
        if number in done or asked.is_over:
            continue
        row = one_tune(name, number, asked.budget)
        if row["outcome"] == "failed":
            raise SystemExit(f"{name}: the tune failed: {row['reason']}")
        book.keep({"kind": "tune", "script": name, "number": number, "budget": asked.budget, **row})
        found = ", ".join(row["plan"]) or "nothing"
        print(f"{name}: found {found} in {row['seconds']:.0f} s: {row['reason']}", flush=True)


def one_tune(name: str, seed: int, budget: float) -> Row:
    """What it found, and ``curve``: what it had found, from this many seconds on."""
    asked = SCRIPTS[name]
    techniques = (*TECHNIQUES, *EVALUATION) if asked.whole else TECHNIQUES
    only = [word for technique in techniques for word in ("--only", technique)]
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        found = find_script(str(asked.script), list(asked.arguments))
        with watched(Workspace(found)) as seen:
            row = tuned(found, budget, seed, only)
    curve = with_end(seen, row["seconds"], Plan.from_json(row["plan"]))
    return {**row, "curve": [(seconds, plan.to_json()) for seconds, plan in curve]}


def with_end(seen: Sequence[Held], seconds: float, plan: Plan) -> list[Held]:
    """``seen``, and what was found in the end: what lay on disk is removed just before."""
    removed = len(seen) > 1 and seen[-1][1] == BASELINE
    return [*(seen[:-1] if removed else seen), (seconds, plan)]


@contextmanager
def watched(workspace: Workspace) -> Iterator[list[Held]]:
    """The best plan on disk, whenever it changes, by the seconds since then; filled as time goes on."""
    began, over = time.monotonic(), threading.Event()
    seen: list[Held] = [(0.0, BASELINE)]

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            saved = unconfirmed.kept(workspace)
            plan = saved.plan if saved is not None else BASELINE
            if plan != seen[-1][1]:
                seen.append((time.monotonic() - began, plan))

    beside = threading.Thread(target=watch)
    beside.start()
    try:
        yield seen
    finally:
        over.set()
        beside.join()


# ---- the table
@contextmanager
def begun(name: str) -> Iterator[tuple[Timing, Facts]]:
    """Watches the script, and measures it."""
    asked = SCRIPTS[name]
    with staged(asked.script, asked.arguments) as trials, tempfile.TemporaryDirectory() as folder:
        observation, rhythm = observe(trials)
        facts = Facts(trials.stage.seen, observation)
        yield WholeRuns(asked.words, Path(folder)) if asked.whole else PairsBench(trials, rhythm), facts


def time_plans(name: str, number: int, bench: Timing, book: Book, asked: Asked) -> None:
    """One round, or what is left of it."""
    unit = SCRIPTS[name].unit
    for plan in left_of(number, book.of(name)) if not asked.is_over else ():
        if asked.is_over:
            return
        row = one_process(bench, plan, unit)
        book.keep({"kind": "timed", "script": name, "round": number, "plan": plan.to_json(), **row})
        told = row["failure"] or f"{row[unit]:.3g} {unit}"
        print(f"{name} {number}: {plan.key}: {told} in {row['seconds']:.1f} s", flush=True)


def left_of(number: int, searched: Searched) -> list[Plan]:
    """The processes of a round that were not started yet, in their order."""
    done = searched.timed_in(number)
    left: list[Plan] = []
    for place, plan in enumerate(in_any_order(wanted(number, searched), number)):
        if place % EVERY == 0 and place // EVERY >= done.count(BASELINE):
            left.append(BASELINE)
        if plan not in done:
            left.append(plan)
    return left


def wanted(number: int, searched: Searched) -> list[Plan]:
    """All plans in the first round; later those that were nearly the best before. Always what tunes found."""
    assert searched.axes is not None
    plans = plans_of(searched.axes)
    found = [Plan.from_json(plan) for row in searched.tunes for _, plan in row["curve"]]
    if number > 0:
        times = times_of(searched.table(number))
        least = min(times.values())
        plans = [plan for plan in plans if plan in times and times[plan] <= NEAR * least]
    return [plan for plan in dict.fromkeys([*plans, *found]) if plan != BASELINE]


def in_any_order(plans: Sequence[Plan], number: int) -> list[Plan]:
    """The same each time for a round."""
    return random.Random(number).sample(plans, len(plans))


def one_process(bench: Timing, plan: Plan, unit: str) -> Row:
    """Of the plan, alone."""
    began = time.monotonic()
    row: Row = {unit: None, "failure": None}
    try:
        (row[unit],) = bench.singles([plan])
    except (MeasureFailed, PlanRefused, ScriptOver, WorkerError) as error:
        row["failure"] = str(error)
    return {**row, "seconds": time.monotonic() - began}


# ---- what the table cannot tell
def compare_with_best(name: str, bench: Timing, book: Book, asked: Asked) -> None:
    searched = book.of(name)
    for best, found in duels(searched) if searched.is_whole else ():
        if asked.is_over:
            return
        trial = bench.compare(best, found, PAIRS)
        row = {"best": best.to_json(), "found": found.to_json(), "log_ratios": trial.log_ratios}
        book.keep({"kind": "duel", "script": name, **row, "failure": trial.failure})
        ratio = trial.failure or (trial.ratio and f"{trial.ratio.value:.3f}")
        print(f"{name}: {found.key} takes {ratio} of {best.key}", flush=True)


def duels(searched: Searched) -> list[tuple[Plan, Plan]]:
    """What may be the best, and what was found, that were not compared yet."""
    done = [(Plan.from_json(row["best"]), Plan.from_json(row["found"])) for row in searched.of_kind("duel")]
    times = times_of(searched.in_space())
    found = dict.fromkeys(Plan.from_json(row["plan"]) for row in searched.tunes)
    both = [
        (best, plan)
        for plan in found
        for best in sorted((one for one in times if one != plan), key=times.__getitem__)[:CHALLENGERS]
    ]
    return [one for one in both if one not in done]


def ask_optuna(name: str, book: Book) -> None:
    searched = book.of(name)
    if not searched.is_whole or searched.optuna is not None:
        return
    assert searched.axes is not None
    curves = optuna_curves(searched.in_space(), searched.axes)
    told = {"version": optuna().__version__, "timed": len(searched.of_kind("timed")), "curves": curves}
    book.keep({"kind": "optuna", "script": name, **told})


if __name__ == "__main__":
    main()
