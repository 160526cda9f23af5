"""Whole runs, as people wait for them: plain ``python script.py`` and ``hasten run``, in the order A B B A.

    python -m benchmarks.runs --example fashion_cnn --rounds 5                 # tuned first
    python -m benchmarks.runs --example fashion_cnn --rounds 5 --use bf16 --use threads:count=2
    python -m benchmarks.runs --example cifar_cnn --data FOLDER --epochs 2 --plan plan.toml
    python -m benchmarks.runs --empty-plan tests/scripts/shapes/with_argparse.py ... --rounds 3
    python -m benchmarks.runs                                                  # what was measured so far

The wall clock is that of the whole process, Python's start included. Appends a line a run, and one a tune,
to ``benchmarks/results/runs.jsonl``, and prints what all of them say: how many times faster a run is, whether
the metric is as good, and how often the forecast of a tune held. Nothing else may run on the machine then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hasten.examples import path as example_path
from hasten.machine import this_machine
from hasten.plans.files import SavedPlan, write_plan
from hasten.records.plan import BASELINE

from .false_wins import commit, rows_of
from .results import FOLDER, now
from .runs_summary import AS_TUNED, NOTHING, summary

FILE = FOLDER / "runs.jsonl"
ARMS = ("plain", "plan")
WORKLOADS = Path(__file__).parent / "workloads"
ACCURACY = r"^accuracy (\S+)$"
LAST_LOSS = r"\bloss (\S+)$"

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A training to run whole. ``length``: in what ``option`` counts. ``bar``: times faster that a run is to
    be, ``above``: what the interval is to exclude; None if nothing is promised. ``judged``: by which plan.
    ``metric``: what it prints.
    """

    name: str
    script: Path
    length: int
    option: str = "--epochs"
    bar: float | None = None
    above: float | None = None
    metric: str = ACCURACY
    takes_seed: bool = True
    needs_data: bool = False
    judged: str = AS_TUNED

    def arguments(self, length: int, seed: int | None, data: str) -> list[str]:
        """Of the script. Tunes get no seed, since a run is told of by its other arguments."""
        words = [self.option, str(length)]
        words += ["--data", data] if self.needs_data else []
        return [*words, "--seed", str(seed)] if seed is not None and self.takes_seed else words


CASES = {
    case.name: case
    for case in (
        Case("fashion_cnn", example_path("fashion_cnn"), 5, bar=2.8, above=2.6),
        Case("augmented_resnet", example_path("augmented_resnet"), 3, bar=1.9),
        Case("padded_text", WORKLOADS / "padded_text.py", 5, bar=2.0, judged="--use pad_trim"),
        Case("cifar_cnn", WORKLOADS / "cifar_cnn.py", 1, bar=2.3, needs_data=True),
        Case("bn_cnn", example_path("bn_cnn"), 5, metric=r"^Test accuracy: (\S+)$"),
        Case("char_gpt", example_path("char_gpt"), 400, option="--steps", metric=r"^loss (\S+)$"),
        Case("autoencoder", WORKLOADS / "autoencoder.py", 8, metric=LAST_LOSS),
        Case("segmentation", WORKLOADS / "segmentation.py", 6, metric=r"IoU (\S+)$"),
        Case(
            "long_evaluation",
            WORKLOADS / "long_evaluation.py",
            8,
            metric=r"accuracy (\S+)$",
            takes_seed=False,
        ),
        Case("short_epochs", WORKLOADS / "short_epochs.py", 100, metric=LAST_LOSS, takes_seed=False),
        Case("large_saves", WORKLOADS / "large_saves.py", 40, metric=LAST_LOSS, takes_seed=False),
        Case("many_objects", WORKLOADS / "many_objects.py", 20, metric=LAST_LOSS, takes_seed=False),
    )
}


@dataclass(frozen=True)
class Ran:
    """A whole process that ended well."""

    seconds: float
    output: str


Runner = Callable[[Sequence[str], Path], Ran]
"""Runs the words in the folder. Raises subprocess.CalledProcessError where they fail."""


def run(words: Sequence[str], folder: Path) -> Ran:
    began = time.perf_counter()
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return Ran(seconds, done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--example", choices=tuple(CASES))
    what.add_argument("--empty-plan", nargs="+", type=Path, metavar="SCRIPT")
    parser.add_argument("--epochs", type=int, help="of each run, or steps (default: those of the case)")
    parser.add_argument("--rounds", type=int, default=4, help="of one run of each arm")
    parser.add_argument("--data", type=Path, help="the folder that a case reads")
    parser.add_argument("--budget", help="of the tune, in seconds (default: hasten's own)")
    plan = parser.add_mutually_exclusive_group()
    plan.add_argument("--plan", type=Path, metavar="FILE")
    plan.add_argument("--use", action="append", default=[], metavar="TECHNIQUE[:KEY=VALUE,...]")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(exist_ok=True)
    keep = keeping(arguments.file)
    if arguments.example:
        case = CASES[arguments.example]
        if case.needs_data and arguments.data is None:
            parser.error(f"{case.name} reads the folder that --data names")
        data = str(arguments.data.resolve()) if arguments.data else ""
        measure(case, arguments, data, run, keep)
    elif arguments.empty_plan:
        measure_empty([script.resolve() for script in arguments.empty_plan], arguments.rounds, run, keep)
    print(summary(rows_of(arguments.file), CASES))


def keeping(path: Path) -> Callable[[Row], None]:
    """What appends a row to the file, with where and when."""
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
    session = now()

    def keep(row: Row) -> None:
        when = {"session": session, "ended": now(), "load_average": os.getloadavg()[0]}
        with path.open("a") as file:
            file.write(json.dumps({**row, **when, **where}) + "\n")

    return keep


# ---- cases
def measure(
    case: Case, arguments: argparse.Namespace, data: str, runner: Runner, keep: Callable[[Row], None]
) -> None:
    """Whole runs of both arms, in turns; a tune before them where no plan was named."""
    length = arguments.epochs or case.length
    about: Row = {"case": case.name, "epochs": length, "unit": case.option.removeprefix("--")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options, tuned = planned(case, arguments, data, folder, runner)
        if tuned is not None:
            about |= {"plan": tuned["plan"], "forecast": tuned["forecast"]}
            keep(
                {"kind": "tune", **about, "speedup": tuned["speedup"], "tune_seconds": tuned["tune_seconds"]}
            )
            if not tuned["plan"]:
                raise SystemExit(f"no plan was found for {case.name}: {tuned['reason']}")
        else:
            about |= {"plan": " ".join(options), "forecast": None}
        for number in range(arguments.rounds):
            words = [str(case.script), *case.arguments(length, number, data)]
            for arm in order(number):
                done = runner(command(arm, options, words), folder)
                metric = metric_in(done.output, case.metric)
                keep(
                    {
                        "kind": "run",
                        **about,
                        "round": number,
                        "arm": arm,
                        "seconds": done.seconds,
                        "metric": metric,
                    }
                )
                print(f"{case.name} {number} {arm}: {done.seconds:.2f} s, {metric}", flush=True)


def planned(
    case: Case, arguments: argparse.Namespace, data: str, folder: Path, runner: Runner
) -> tuple[list[str], Row | None]:
    """Options of ``hasten run``, and what a tune has told if there was one."""
    if arguments.plan is not None:
        return ["--plan", str(arguments.plan.resolve())], None
    if arguments.use:
        return [word for text in arguments.use for word in ("--use", text)], None
    script = [str(case.script), *case.arguments(arguments.epochs or case.length, None, data)]
    budget = ["--budget", arguments.budget] if arguments.budget else []
    runner(hasten("tune", "--quiet", "--fresh", *budget, "--json", "tune.json", *script), folder)
    tuned: Row = json.loads((folder / "tune.json").read_text())
    (plan,) = folder.glob(".hasten/*/plan.toml")
    return ["--plan", str(plan)], tuned


def order(number: int) -> tuple[str, ...]:
    """A B B A: a drift of the machine cancels."""
    return ARMS if number % 2 == 0 else ARMS[::-1]


def command(arm: str, options: Sequence[str], words: Sequence[str]) -> list[str]:
    return [sys.executable, *words] if arm == "plain" else hasten("run", *options, *words)


def hasten(*words: str) -> list[str]:
    return [sys.executable, "-m", "hasten.cli.main", *words]


def metric_in(output: str, pattern: str) -> float:
    """The last that the script printed. Raises SystemExit if it printed none."""
    found = re.findall(pattern, output, re.MULTILINE)
    if not found:
        raise SystemExit(f"the run printed no metric: no line of its output matches {pattern}")
    return float(found[-1])


# ---- empty plans
def measure_empty(scripts: Sequence[Path], rounds: int, runner: Runner, keep: Callable[[Row], None]) -> None:
    """Scripts under a plan that has nothing in it, and one that does nothing, for what the start of hasten
    costs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / NOTHING).write_text("")
        write_plan(folder / "empty.toml", SavedPlan(BASELINE))
        for script in (folder / NOTHING, *scripts):
            for number in range(rounds):
                for arm in order(number):
                    done = runner(command(arm, ["--plan", "empty.toml"], [str(script)]), folder)
                    keep(
                        {
                            "kind": "empty",
                            "case": script.name,
                            "round": number,
                            "arm": arm,
                            "seconds": done.seconds,
                        }
                    )
            print(f"{script.name}: {rounds} rounds", flush=True)


if __name__ == "__main__":
    main()
