"""Does hasten start later, watch at a higher price or find less than before? Four parts, in five minutes.

    python -m benchmarks.quick     # before a change and after it

Each part is that of another benchmark with short settings: how long ``hasten --help`` takes, what watching
costs the smallest training, a gain that is known, and one tune of ``fashion_cnn``. Appends a line to
``benchmarks/results/quick.jsonl``, and holds what it found against the last lines of the same machine and
torch. Intervals are over what was repeated within one run. By how much two runs of the same hasten differ
can be seen only by running it twice before the change. Where a part gave no number - the tune found no gain,
say - it fails and names it.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench import busy_techniques
from tests.bench.busy_techniques import KINDS, SCRIPT, busy_plan
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import trials_for

from hasten.bench.comparing.statistics import robust_interval
from hasten.bench.observe import observe
from hasten.bench.script_bench import ScriptBench
from hasten.examples import path
from hasten.machine import this_machine
from hasten.records.plan import BASELINE
from hasten.records.trial import Ratio
from hasten.report.words import ratio_words
from hasten.scripts.workspace import find_script

from . import observation, startup
from .disturbed import tuned
from .false_wins import commit, inside, rows_of
from .known_effects import LIVE_SECONDS, kept
from .results import FOLDER, now

FILE = FOLDER / "quick.jsonl"
TRAINING, PROCESSES, ABBA_BLOCKS = "small perceptron", 5, 12
GAIN = 0.1
BUDGET = 150.0  # of the tune, in seconds
LAST = 3  # lines that are compared with


@dataclass(frozen=True)
class Part:
    """``ratio``: what is compared with the same of other runs; None if there is nothing to compare."""

    words: str
    ratio: Ratio | None
    raw: Any


def start() -> Part:
    seconds = startup.measured()
    bare, ours = seconds.values()
    ratio = robust_interval([math.log(b / a) for a, b in zip(bare, ours, strict=True)], "starts")
    assert ratio is not None
    words = f"hasten --help takes {1e3 * median(ours):.0f} ms, {_span(ratio)} times a bare Python"
    return Part(words, ratio, seconds)


def watching() -> Part:
    found = observation.measured(TRAINING, PROCESSES, ABBA_BLOCKS)
    ratio = Ratio(**found["ratio"], count=PROCESSES, unit="processes")
    return Part(observation.in_words(TRAINING, found), ratio, found)


def known_gain() -> Part:
    """In one process, as a search compares."""
    with (
        known_to_workers(busy_techniques.__file__, KINDS),
        tempfile.TemporaryDirectory() as folder,
        trials_for(Path(folder), SCRIPT) as trials,
    ):
        _, rhythm = observe(trials)
        with ScriptBench(trials, rhythm) as bench:
            trial = bench.compare(BASELINE, busy_plan(GAIN), LIVE_SECONDS)
    speedup = trial.ratio.inverted() if trial.ratio is not None else None
    words = trial.failure or f"of {1 + GAIN:.2f}x, found {ratio_words(trial.ratio)}"
    return Part(words, speedup, kept(trial))


def tune() -> Part:
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        found = tuned(find_script(str(path("fashion_cnn")), []), BUDGET, 0)
    told = f"{found['outcome']} in {found['seconds']:.0f} s"
    claim = found.get("speedup")
    if claim is None:
        return Part(f"{told}: {found['reason']}", None, found)
    speedup = Ratio(claim["value"], claim["low"], claim["high"], claim["processes"], "pairs")
    return Part(f"{told}: {_span(speedup)} times faster, by {', '.join(found['plan'])}", speedup, found)


PARTS: dict[str, Callable[[], Part]] = {
    "start": start,
    "watching": watching,
    "known gain": known_gain,
    "tune": tune,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=FILE)
    measure(parser.parse_args().file)


def measure(file: Path) -> None:
    """All parts; the line is written when the last is over. Raises SystemExit, by name, where some gave no
    number.
    """
    where = {"machine": this_machine().identity, "torch": version("torch")}
    stored = of_the_same(rows_of(file), where)
    if not stored:
        print(
            f"nothing to compare with: {file.name} has no line of {where['machine']}, torch {where['torch']}"
        )
    row: dict[str, Any] = {**where, "commit": commit(), "began": now(), "summary": {}, "raw": {}}
    for name, part in PARTS.items():
        found = part()
        print(f"{name}: {found.words}", flush=True)
        for line in differences(name, found.ratio, stored):
            print(f"  {line}", flush=True)
        row["summary"][name] = _as_json(found.ratio)
        row["raw"][name] = found.raw
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    missing = [name for name, ratio in row["summary"].items() if ratio is None]
    if missing:
        raise SystemExit(f"no number came of: {', '.join(missing)}")


def of_the_same(rows: Sequence[dict[str, Any]], where: dict[str, str]) -> list[dict[str, Any]]:
    """The last lines of that machine and torch, the newest first."""
    same = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return same[-LAST:][::-1]


def differences(name: str, found: Ratio | None, stored: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each stored one: how many times what it was then, and what may be said of that."""
    lines = []
    for row in stored:
        then = row["summary"].get(name)
        where = f"{row['commit']}, {row['began']}"
        if then is None or found is None:
            lines.append(
                f"cannot be compared with {where}: {'then' if then is None else 'now'} it gave no number"
            )
            continue
        times = Ratio(
            found.value / then["value"], found.low / then["high"], found.high / then["low"], found.count, ""
        )
        apart = "higher" if times.low > 1 else "lower" if times.high < 1 else "no difference to be seen"
        lines.append(f"{_span(times)} times that of {where}: {apart}")
    return lines


def _as_json(ratio: Ratio | None) -> dict[str, float] | None:
    return {"value": ratio.value, "low": ratio.low, "high": ratio.high} if ratio is not None else None


def _span(ratio: Ratio) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


if __name__ == "__main__":
    main()
