"""Threads against processes on the shipped examples: every layout of this machine against one process with a
thread on each core.

    python -m benchmarks.layouts [EXAMPLE ...] [--rounds N]     # and writes docs/layouts.md

Pairs of fresh launches: of each pair one trains while the other is stopped. A round measures each layout by
two pairs, one in either order, so that whatever the machine does meanwhile befalls all layouts. The global
batch is the script's own in all of them. Raw numbers go to ``benchmarks/results``.

Other programs do not slow layouts alike: threads that meet at the end of every operator wait for the one that
another program keeps from its core, processes that meet once a step hardly do. So nothing is measured on a
machine that others use.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.warnings import before_tuning
from hasten.bench.observe import observe
from hasten.examples import path
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.support.process_layouts import layouts
from hasten.machine import this_machine
from hasten.machine.vitals import idle_vitals
from hasten.records.codec import to_json
from hasten.records.facts import Facts
from hasten.records.layout import Layout
from hasten.records.machine import Machine
from hasten.records.plan import Plan
from hasten.records.trial import Ratio, Trial
from hasten.report.caution import caution_words
from hasten.report.words import ratio_words
from hasten.units import seconds_words

from .results import DOCS, write_result
from .staging import staged

EXAMPLES = ("fashion_cnn", "augmented_resnet", "char_gpt")
ROUNDS = 4
PAIRS = 2  # of a layout in a round: one in either order
HEADING = "## Measured"


class Launches(Protocol):
    """Compares two plans by pairs of fresh launches."""

    def compare(self, a: Plan, b: Plan, pairs: int) -> Trial: ...


@dataclass
class Found:
    """What came out for one layout against ``threads`` threads in one process."""

    processes: int
    threads: int
    bind: str
    log_ratios: list[float] = field(default_factory=list)
    step_seconds: list[tuple[float, float]] = field(default_factory=list)  # one process's, this layout's
    failure: str = ""

    @property
    def ratio(self) -> Ratio | None:
        return None if self.failure else interval(self.log_ratios, "pairs")


def one_process(machine: Machine) -> Plan:
    """As torch trains by itself: one process, not bound, with a thread on each core."""
    return Plan({"threads": {"count": min(machine.physical_cores, machine.whole_cpus)}})


def plan_of(layout: Layout) -> Plan:
    if layout.processes == 1:
        return Plan({"threads": {"count": layout.threads}})
    return Plan({"processes": layout.settings})


def others(machine: Machine) -> list[Layout]:
    """The machine's layouts, less those whose plan is that of one process or of another layout."""
    plans = {one_process(machine): None} | {plan_of(layout): layout for layout in reversed(layouts(machine))}
    chosen = [layout for plan, layout in plans.items() if plan != one_process(machine) and layout is not None]
    return list(reversed(chosen))


def measure(
    bench: Launches, machine: Machine, rounds: int, tell: Callable[[Found], None] = lambda _: None
) -> list[Found]:
    """Every layout, in turns; one that fails is not launched again."""
    chosen = [(Found(one.processes, one.threads, one.bind), plan_of(one)) for one in others(machine)]
    for number in range(rounds):
        for found, plan in chosen if number % 2 == 0 else reversed(chosen):
            if found.failure:
                continue
            trial = bench.compare(one_process(machine), plan, PAIRS)
            found.log_ratios += trial.log_ratios
            found.failure = trial.failure or ""
            if trial.step_seconds_a is not None and trial.step_seconds_b is not None:
                found.step_seconds.append((trial.step_seconds_a, trial.step_seconds_b))
            tell(found)
    return [found for found, _ in chosen]


def answer(found: Found, usual_threads: int) -> str:
    """Whether a layout beats one process, in a sentence; only what the interval says."""
    layout = f"{_counted(found.processes, 'process', 'processes')} of {_threads(found.threads)}"
    usual = f"one process of {_threads(usual_threads)}"
    ratio = found.ratio
    if ratio is None:
        return f"{layout}: {found.failure or 'too few pairs to tell'}"
    pairs = f"{ratio.count} pairs"
    if ratio.high < 1:
        verb = "beat" if found.processes > 1 else "beats"
        return f"{layout} {verb} {usual}: {ratio_words(ratio)}, {pairs}"
    if ratio.low > 1:
        return f"{usual} beats {layout}: {ratio_words(ratio.inverted())}, {pairs}"
    return f"{layout} and {usual} cannot be told apart: {ratio_words(ratio)}, {pairs}"


def _threads(count: int) -> str:
    return _counted(count, "thread", "threads")


def _counted(count: int, one: str, many: str) -> str:
    numbers = {1: "one", 2: "two", 3: "three", 4: "four"}
    return f"{numbers.get(count, count)} {one if count == 1 else many}"


def row_of(found: Found) -> dict[str, Any]:
    """As it is kept: raw values, and what was made of them."""
    return {
        "processes": found.processes,
        "threads": found.threads,
        "bind": found.bind,
        "log_ratios": found.log_ratios,
        "step_seconds": found.step_seconds,
        "ratio": to_json(found.ratio),
        "failure": found.failure,
    }


def measured(results: Mapping[str, Sequence[Found] | str], machine: Machine) -> str:
    """The last part of docs/layouts.md. ``results``: by example; a text where it was refused."""
    usual = min(machine.physical_cores, machine.whole_cpus)
    lines = [
        "",
        "",
        f"On {machine.identity}, torch {importlib.metadata.version('torch')}, by `python -m "
        f"benchmarks.layouts`: a step of each layout against one process of {_threads(usual)}; times as "
        "fast, with the 95% interval over pairs of fresh launches.",
        "",
        f"| example | layout | a step, {_threads(usual)} | a step, this layout | times as fast |",
        "|---|---|---|---|---|",
    ]
    told = []
    for example, found in results.items():
        if isinstance(found, str):
            told.append(f"- `{example}`: not measured, {found}.")
            continue
        lines += [_row(example, one) for one in found]
        told += [f"- `{example}`: {answer(one, usual)}." for one in found]
    return "\n".join([*lines, "", *told]) + "\n"


def _row(example: str, found: Found) -> str:
    layout = (
        f"{found.processes} x {found.threads}, {found.bind}"
        if found.processes > 1
        else f"1 x {found.threads}"
    )
    times = [sorted(seconds)[len(seconds) // 2] for seconds in zip(*found.step_seconds, strict=True)]
    plain, laid_out = map(seconds_words, times) if times else ("-", "-")
    return f"| {example} | {layout} | {plain} | {laid_out} | {ratio_words(found.ratio)} |"


def on_example(example: str, rounds: int) -> list[Found] | str:
    """What was measured, or why nothing was."""
    busy = before_tuning(*idle_vitals())
    if busy:
        return "; ".join(map(caution_words, busy))
    with staged(Path(path(example))) as trials:
        observation, rhythm = observe(trials)
        reasons = CATALOG["processes"].refuse(Facts(trials.stage.machine, observation))
        if reasons:
            return "; ".join(reasons)
        bench = PairsBench(trials, rhythm)
        return measure(
            bench, trials.stage.machine, rounds, lambda found: print(f"{example}: {_line(found)}", flush=True)
        )


def _line(found: Found) -> str:
    return f"{found.processes} x {found.threads}: {found.failure or ratio_words(found.ratio)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", default=EXAMPLES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    machine = this_machine()
    results = {example: on_example(example, arguments.rounds) for example in arguments.examples}
    text = measured(results, machine)
    print(text)
    rows = {
        name: found if isinstance(found, str) else [*map(row_of, found)] for name, found in results.items()
    }
    write_result("layouts", {"examples": rows})
    page = DOCS / "layouts.md"
    written, heading, _ = page.read_text().partition(HEADING)
    page.write_text(written + heading + text)


if __name__ == "__main__":
    main()
