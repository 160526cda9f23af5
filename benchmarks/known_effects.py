"""Real confirmations of plans whose effect is known: is it found, and nothing if nothing is?

    python -m benchmarks.known_effects --rounds 20

A round measures each effect once, in an order that rotates: as the search does, live in one process, and as a
claim is made, by pairs of fresh processes. What is true is known from counted work, see
``tests/bench/busy_techniques.py``; each round also calibrates what of a step is not counted. Appends a line a
comparison to ``benchmarks/results/known_effects.jsonl``, with the raw log ratios, until the file has that
many rounds; so it can be stopped and gone on with. To begin again, remove it. ``benchmarks.measuring`` puts
it on the page.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench import busy_techniques
from tests.bench.busy_techniques import (
    CALIBRATED,
    CALIBRATION_STEPS,
    KINDS,
    SCRIPT,
    busy_plan,
    rounds_under,
)
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import first_output, trials_for

from hasten.bench.comparing.decisions import LOOKS_MOST, Effort
from hasten.bench.observe import observe
from hasten.bench.script_bench import ScriptBench
from hasten.machine import this_machine
from hasten.records.plan import BASELINE
from hasten.records.trial import Trial

from .false_wins import commit, rows_of
from .known_effects_summary import summary
from .results import FOLDER, now

FILE = FOLDER / "known_effects.jsonl"
GAINS = (-0.3, -0.1, -0.05, -0.03, 0.0, 0.03, 0.05, 0.1, 0.3)  # as in busy_plan
PAIRS = 6
LIVE_SECONDS = 2.0  # of each live comparison


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="how many the file shall have")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each confirmation; a claim needs four")
    parser.add_argument("--gains", type=float, nargs="+", default=GAINS, metavar="GAIN", help="0.05 for 5%%")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error("--pairs: an interval needs two at least")
    arguments.file.parent.mkdir(exist_ok=True)
    done = {(row["round"], row["gain"]) for row in rows_of(arguments.file) if row["kind"] == "comparison"}
    for number in range(arguments.rounds):
        gains = [gain for gain in in_turn(arguments.gains, number) if (number, gain) not in done]
        began = time.monotonic()
        for row in one_round(number, gains, arguments.pairs) if gains else ():
            with arguments.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{number}: {in_words(row)}", flush=True)
        if gains:
            print(f"{number}: {time.monotonic() - began:.0f} s", flush=True)
    print(summary(rows_of(arguments.file)))


def in_turn(gains: Sequence[float], number: int) -> list[float]:
    """Each round begins with the next one, so that none is always measured first."""
    first = number % len(gains)
    return [*gains[first:], *gains[:first]]


def one_round(number: int, gains: Sequence[float], pairs: int) -> Iterator[dict[str, Any]]:
    """Rows: the calibration, then one for each gain."""
    where = {"round": number, "machine": this_machine().identity, "torch": version("torch")}
    where["commit"] = commit()
    known = known_to_workers(busy_techniques.__file__, KINDS)
    with known, tempfile.TemporaryDirectory() as folder:
        calibrated = {"rounds": CALIBRATED, "step_seconds": calibration(Path(folder, "calibration"))}
        yield {**where, "kind": "calibration", "began": now(), **calibrated}
        with trials_for(Path(folder, "training"), SCRIPT) as trials:
            _, rhythm = observe(trials)
            with ScriptBench(trials, rhythm) as bench:
                plans = {gain: busy_plan(gain) for gain in gains}
                live = {gain: bench.compare(BASELINE, plans[gain], LIVE_SECONDS) for gain in gains}
                for gain in gains:
                    began = now()
                    yield {
                        **where,
                        "kind": "comparison",
                        "gain": gain,
                        "began": began,
                        "rounds": [rounds_under(BASELINE), rounds_under(plans[gain])],
                        "live": kept(live[gain]),
                        "pairs": kept(bench.confirm(plans[gain], Effort(pairs, LOOKS_MOST))),
                    }


def calibration(folder: Path) -> list[float]:
    """Seconds, first deciles, of steps with CALIBRATED rounds, by the script's own clock in a worker."""
    with trials_for(folder, SCRIPT, "calibrate") as trials, trials.worker() as worker:
        worker.wait_started()
        worker.steps(CALIBRATION_STEPS)
        found: list[float] = json.loads(first_output(folder))
    return found


def kept(trial: Trial) -> dict[str, Any]:
    """The raw numbers of a comparison."""
    names = ("log_ratios", "looks", "looks_most", "step_seconds_a", "step_seconds_b", "seconds", "failure")
    return {name: getattr(trial, name) for name in names}


def in_words(row: dict[str, Any]) -> str:
    if row["kind"] == "calibration":
        return "calibrated: " + ", ".join(f"{1e3 * seconds:.3f} ms" for seconds in row["step_seconds"])
    tried = row["pairs"]
    found = tried["failure"] or ", ".join(f"{ratio:+.3f}" for ratio in tried["log_ratios"])
    return f"gain {row['gain']:+.0%}: {found} in {tried['seconds']:.0f} s"


if __name__ == "__main__":
    main()
