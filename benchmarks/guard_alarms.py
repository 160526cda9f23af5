"""How often the guard stops a harmless plan, and how often it catches a planted fault.

    python -m benchmarks.guard_alarms --harmless 200 --seeds 4
    python -m benchmarks.guard_alarms --every-script --harmless 100 --seeds 0 --file FILE
    python -m benchmarks.guard_alarms --judge-anew    # from the raw numbers that are kept

A harmless run is a whole ``guard`` of a small script or a shipped example under a plan that applies to it, as
a tune of ``BUDGET`` seconds runs it; scripts, plans and seeds change from run to run. A fault is one of
tests/bench/faulty_techniques.py in a training of its own, held against the rounding of float32 and of
bfloat16, with two seeds each. Appends a line a run to
``benchmarks/results/guard_alarms.jsonl``, with the verdict and the raw numbers that it was made from, until
the file has that many; so it can be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench import faulty_techniques, idle_technique
from tests.bench.faulty_techniques import FAULTS, PLANTED, TRAINING, TRAININGS
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import trials_for as stage_of_source
from tests.scripts.shapes import TUNABLE
from tests.scripts.trial import trials_for

from hasten import examples
from hasten.bench.guard.guard import judged_closely, three_trainings
from hasten.bench.guard.judging import verdict_on
from hasten.bench.observe import observe
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import PlanRefused
from hasten.inside.techniques.catalog import CATALOG
from hasten.machine import this_machine
from hasten.records.facts import Facts
from hasten.records.plan import Plan
from hasten.report.guard import reasons as guard_reasons
from hasten.report.machine_readable import guard_json
from hasten.tuning.costs import Costs

from .false_wins import commit, rows_of
from .guard_rows import counted, judged_anew, raw, summary
from .results import FOLDER, now

FILE = FOLDER / "guard_alarms.jsonl"
TOLERANCES_FIXED = "2026-11-20T13:07:30+00:00"  # after a look at the runs before
BUDGET = 30.0  # seconds, of the tune whose guard it would be
TECHNIQUES = ("bf16", "channels_last", "fused_optimizer", "dataset_in_ram")
PLANS = (*TECHNIQUES, "together", "idle")
FAULT_STEPS = 60
FAULT_SEEDS = (0, 2, 1, 3)  # in this order
LOWERED = (2, 3)
HARMLESS_AT_ONCE = 3
EXAMPLES: dict[str, tuple[str, ...]] = {
    "fashion_cnn": ("--batch-size", "16"),
    "char_gpt": ("--batch-size", "4"),
    "augmented_resnet": ("--batch-size", "8"),
}
SHAPES = (
    "convolutional", "batch_norm_dropout", "lstm", "gru", "transformer", "trainer_class", "clipping",
    "scheduler_per_step", "scheduler_per_epoch", "dict_inputs", "mixed_inputs", "tuple_output", "conv3d",
    "train_eval_switching", "shared_parameters", "multi_task", "accumulation_with_remainder", "nested_inputs",
    "gan_three_backwards", "submodules_called", "custom_collate", "frozen_parameters", "double_backward",
    "closure_step",
)  # fmt: skip
EVERY = (*(shape.name for shape in TUNABLE), *EXAMPLES)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--harmless", type=int, default=200, help="runs to count in the end")
    parser.add_argument(
        "--seeds", type=int, default=4, choices=range(5), help="of each fault, in each of its trainings"
    )
    parser.add_argument("--judge-anew", action="store_true", help="run nothing")
    parser.add_argument(
        "--every-script", action="store_true", help="all of tests/scripts and the examples, all that applies"
    )
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(exist_ok=True)
    rows = rows_of(arguments.file)
    scripts, plans = (EVERY, ("together",)) if arguments.every_script else ((*SHAPES, *EXAMPLES), PLANS)
    commit_at_start()
    if arguments.judge_anew:
        rows = [judged_anew(row, commit_at_start()) for row in rows]
        arguments.file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(summary(rows))
        return
    for case in cases_left(rows, arguments.harmless, arguments.seeds, _harmless(scripts, plans)):
        row = one_run(case)
        rows.append(row)
        with arguments.file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        said = row["outcome"] if not row["reasons"] else "; ".join(row["reasons"])
        print(
            f"{case.kind} {case.script} {case.plan} {case.seed}: {said} ({row['seconds']:.1f} s)", flush=True
        )
    print(summary(rows))


# ---- which runs
@dataclass(frozen=True)
class Case:
    """``kind``: "harmless" or "fault". ``script``: of a fault, the training that it is planted into."""

    kind: str
    script: str
    plan: str
    seed: int


def cases_left(
    rows: list[dict[str, Any]], harmless: int, seeds: int, harmless_cases: Iterator[Case] | None = None
) -> Iterator[Case]:
    """What is to be run yet, a fault after every ``HARMLESS_AT_ONCE`` harmless runs as long as there are any.

    ``rows`` grows meanwhile: a plan that did not apply is no harmless run.
    """
    begun = {Case(row["kind"], row["script"], row["plan"], row["seed"]) for row in rows}
    faults = (case for case in _faults(seeds) if case not in begun)
    others = (case for case in harmless_cases or _harmless((*SHAPES, *EXAMPLES), PLANS) if case not in begun)
    while len(counted(rows, "harmless")) < harmless:
        yield from islice(others, HARMLESS_AT_ONCE)
        yield from islice(faults, 1)
    yield from faults


def _faults(seeds: int) -> Iterator[Case]:
    for seed in FAULT_SEEDS[:seeds]:
        for kind, names in PLANTED.items():
            for name in names:
                yield Case("fault", kind, name, seed)


def _harmless(scripts: Sequence[str], plans: Sequence[str]) -> Iterator[Case]:
    """Every script under every plan, in an order that mixes them, with one seed after the other."""
    pairs = [(script, plan) for script in scripts for plan in plans]
    random.Random(0).shuffle(pairs)
    for seed in range(10**6):
        for script, plan in pairs:
            yield Case("harmless", script, plan, seed)


# ---- a run
def one_run(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {
        **asdict(case),
        "began": now(),
        "machine": this_machine().identity,
        "torch": version("torch"),
        "commit": commit_at_start(),
    }
    began = time.monotonic()
    found = _fault(case) if case.kind == "fault" else _harmless_run(case)
    return {**row, **found, "seconds": round(time.monotonic() - began, 2)}


def _fault(case: Case) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        known_to_workers(faulty_techniques.__file__, FAULTS),
        stage_of_source(Path(folder), TRAINING, *TRAININGS[case.script]) as trials,
    ):
        return guarded(trials, Plan({case.plan: {}}), False, precision_of_fault(case), case.seed, FAULT_STEPS)


def precision_of_fault(case: Case) -> str:
    """Whose rounding it is held against: bfloat16's with two seeds of four."""
    lowered = FAULTS[case.plan].precision == "bfloat16" or case.seed in LOWERED
    return "bfloat16" if lowered else "float32"


def _harmless_run(case: Case) -> dict[str, Any]:
    facts = facts_of(case.script)
    plan, why_not = plan_for(case.plan, facts)
    if why_not:
        return {"outcome": "not applicable", "reasons": [why_not]}
    steps = Costs.estimate(facts.observation, 0, BUDGET).guard_steps
    with known_to_workers(idle_technique.__file__, {"idle": idle_technique.Idle}):
        techniques = [CATALOG[name] for name in plan.techniques]
        draws = any(technique.risk_for(facts) == "draws" for technique in techniques)
        lowered = any(technique.precision == "bfloat16" for technique in techniques)
        with staged(case.script, case.seed) as trials:
            precision = "bfloat16" if lowered else "float32"
            return guarded(trials, plan, draws, precision, case.seed, steps)


def guarded(trials: Trials, plan: Plan, draws: bool, precision: str, seed: int, steps: int) -> dict[str, Any]:
    """As a tune does it: judged anew, as a plan that draws, where it drew other numbers than was said."""
    try:
        trainings = three_trainings(trials, plan, draws, precision, seed, steps)
        if verdict_on(*trainings, draws, precision).differs_in("streams") and not FAULTS.keys() & set(
            plan.techniques
        ):
            draws = True
            trainings = three_trainings(trials, plan, draws, precision, seed, steps)
        first = verdict_on(*trainings, draws, precision)
        verdict = judged_closely(trials, plan, trainings, draws, precision, seed, steps)
    except PlanRefused as error:
        return {"outcome": "not applicable", "reasons": [str(error)]}
    return {
        "outcome": "passed" if verdict.passed else "stopped",
        "draws": draws,
        "precision": precision,
        "closer": verdict is not first and verdict != first,
        "at_first": guard_reasons(first),
        **guard_json(verdict),
        "raw": {
            name: raw(watched)
            for name, watched in zip(("reference", "perturbed", "candidate"), trainings, strict=True)
        },
    }


@cache
def commit_at_start() -> str:
    return commit()


@cache
def facts_of(script: str) -> Facts:
    with staged(script, 0) as trials:
        observation, _ = observe(trials)
    return Facts(this_machine(), observation)


def plan_for(name: str, facts: Facts) -> tuple[Plan, str]:
    """The plan, or why it does not apply."""
    if name == "idle":
        return Plan({"idle": {}}), ""
    names = TECHNIQUES if name == "together" else (name,)
    reasons = {name: CATALOG[name].refuse(facts) for name in names}
    fitting = [name for name in names if not reasons[name]]
    if name == "together" and len(fitting) < 2:
        return Plan(), "less than two techniques apply"
    if not fitting:
        return Plan(), "; ".join(reasons[name])
    return Plan({name: CATALOG[name].options(facts)[0] for name in fitting}), ""


@contextmanager
def staged(script: str, seed: int) -> Iterator[Trials]:
    """The script in a folder of its own, begun from ``seed`` where it begins from 0."""
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "work")
        folder.mkdir()
        path = folder / f"{script}.py"
        if script in EXAMPLES:
            path, arguments = examples.path(script), (*EXAMPLES[script], "--seed", str(seed))
        else:
            shape = next(shape for shape in TUNABLE if shape.name == script)
            path.write_text(shape.path.read_text().replace("manual_seed(0)", f"manual_seed({seed})"))
            arguments = shape.arguments
        with trials_for(path, folder, arguments) as trials:
            yield trials


if __name__ == "__main__":
    main()
