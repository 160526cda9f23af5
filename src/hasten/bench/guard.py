"""The guard: is the training under a plan the same training?

Two runs from one seed are compared step by step. What must be equal is compared exactly; losses, and what
single steps make of one state and one batch, are compared with what rounding noise of the plan's own size
does to a baseline.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean
from typing import Any

from ..errors import WorkerError
from ..inside.job import Perturbation
from ..records.plan import BASELINE, Plan
from ..records.verdict import GuardVerdict
from .checked_steps import Testimony, Watched, watch
from .ending import PlanRefused, ScriptOver
from .numerics import ROUNDING, judge_steps
from .process import wait_all_started
from .stage import Stage

STEPS = 120
LEAST_STEPS = 20
TOLERANCE = 4.0  # times what the perturbed baseline does
FLOOR = 1e-6  # relative; below it, losses count as equal


def guard(
    stage: Stage, plan: Plan, draws: bool, precision: str, seed: int, steps: int = STEPS
) -> GuardVerdict:
    """Compare ``steps`` first steps of a training under ``plan`` with the baseline's.

    ``draws``: the plan may draw other random numbers from the same distributions. ``precision``: the lowest
    the plan computes in, a key of ROUNDING.
    """
    try:
        reference, perturbed, candidate = three_trainings(stage, plan, draws, precision, seed, steps)
    except (PlanRefused, ScriptOver, WorkerError) as error:
        unseen = judge([], [], [], draws, precision)
        return replace(unseen, reasons=(f"the training could not be watched: {error}",))
    return verdict_on(reference, perturbed, candidate, draws, precision)


def three_trainings(
    stage: Stage, plan: Plan, draws: bool, precision: str, seed: int, steps: int
) -> tuple[Watched, Watched, Watched]:
    """A baseline's, a perturbed baseline's and the plan's, step by step beside each other.

    Raises PlanRefused, ScriptOver or WorkerError where one of them does not come to its first step, or fails.
    """
    noise = Perturbation(ROUNDING[precision], redraw=draws, seed=seed)
    with ExitStack() as stack:
        reference = stack.enter_context(stage.worker(BASELINE, seed=seed, witness=True))
        perturbed = stack.enter_context(stage.worker(BASELINE, seed=seed, witness=True, perturbation=noise))
        candidate = stack.enter_context(stage.worker(plan, seed=seed, witness=True))
        wait_all_started([reference, perturbed, candidate])
        first, (second, third) = watch(reference, [perturbed, candidate], steps, stage.aside)
    return first, second, third


def verdict_on(
    reference: Watched, perturbed: Watched, candidate: Watched, draws: bool, precision: str
) -> GuardVerdict:
    """The verdict on three watched trainings: all their steps one after the other, and single ones."""
    whole = judge(reference.testimony, perturbed.testimony, candidate.testimony, draws, precision)
    if reference.failed:  # there is no room for its state, say: what else was compared must do
        return replace(whole, numerics={"held": None, "left_out": reference.failed})
    steps = judge_steps(perturbed.checks, candidate.checks, draws, precision)
    failed = perturbed.failed or candidate.failed
    if failed:
        steps = {**steps, "held": False, "reasons": [f"single steps could not be compared: {failed}"]}
    reasons = (*whole.reasons, *steps.pop("reasons"))
    return replace(whole, passed=not reasons, reasons=reasons, numerics=steps)


def judge(
    reference: Testimony, perturbed: Testimony, candidate: Testimony, draws: bool, precision: str
) -> GuardVerdict:
    """The verdict on three testimonies: a baseline's, a perturbed baseline's and a plan's."""
    if any(step["batches"] is None for step in candidate):
        reference, perturbed, candidate = map(_by_samples, (reference, perturbed, candidate))
    steps = min(len(reference), len(perturbed))
    reasons: list[str] = []
    unsteady = differing(reference[:steps], perturbed[:steps], draws)
    if steps < LEAST_STEPS:
        reasons.append(f"only {steps} steps could be compared, and {LEAST_STEPS} are needed")
    if unsteady:
        reasons.append(
            f"the script does not repeat itself from one seed ({'; '.join(unsteady)}), "
            "so nothing can be compared"
        )
    invariants = differing(reference, candidate, draws)
    if draws and same_samples(reference, perturbed) and not same_samples(reference, candidate):
        invariants.append("an epoch had other samples")  # which another order alone does not bring about
    reasons += invariants
    curve = compare_losses(reference[:steps], perturbed[:steps], candidate[:steps])
    reasons += loss_reasons(curve)
    return GuardVerdict(
        passed=not reasons,
        steps=steps,
        invariants={
            "compared": [key for key in _COMPARED if not (draws and key in _DRAWN)],
            "differing": invariants,
        },
        loss_curve={**curve, "precision": precision},
        reasons=tuple(reasons),
    )


def _by_samples(testimony: Testimony) -> Testimony:
    """Batches told by their samples in order, as they are where no process sees a whole batch."""
    return [{**step, "batches": [batch["digests"] for batch in step["samples"]]} for step in testimony]


_COMPARED = {
    "batches": "batches left the loader with other content or in another order",
    "modes": "train/eval flags differ",
    "rates": "learning rates differ",
    "optimizer": "optimizers stepped in another order",
    "streams": "other random numbers were drawn",
}
_DRAWN = ("batches", "streams")  # what a plan that draws other random numbers may change


def drew_otherwise(verdict: GuardVerdict) -> bool:
    """Whether the plan drew other random numbers than the baseline, which nobody had said it would."""
    streams = _COMPARED["streams"]
    return any(text.startswith(streams) for text in verdict.invariants["differing"])


def differing(a: Testimony, b: Testimony, draws: bool) -> list[str]:
    """Which invariants differ, each with the first step at which it does."""
    found = []
    if len(a) != len(b):
        found.append(f"one training took {len(a)} steps, the other {len(b)}")
    for key, what in _COMPARED.items():
        if draws and key in _DRAWN:
            continue
        first = next((n for n, (x, y) in enumerate(zip(a, b, strict=False), 1) if x[key] != y[key]), None)
        if first is not None:
            found.append(f"{what} (from step {first})")
    return found


def compare_losses(reference: Testimony, perturbed: Testimony, candidate: Testimony) -> dict[str, Any]:
    """The candidate's departure from the reference against the perturbed baseline's, relative and two-
    sided.
    """
    ours, theirs = _departures(reference, candidate), _departures(reference, perturbed)
    if not ours or not all(map(math.isfinite, (*ours, *theirs))):
        return {"held": False, "deviation": None, "bias": None, "tolerance": None}
    tolerance = max(FLOOR, TOLERANCE * _size(theirs))
    deviation = _size(ours)
    return {
        "held": deviation <= tolerance,
        "deviation": deviation,
        "bias": fmean(ours),
        "tolerance": tolerance,
    }


def loss_reasons(curve: Mapping[str, Any]) -> list[str]:
    """What there is to say against what ``compare_losses`` found."""
    if curve["deviation"] is None:
        return ["losses are missing, or no numbers"]
    if curve["held"]:
        return []
    return [
        f"the loss departs from the baseline's by {curve['deviation']:.1%}, "
        f"where rounding explains {curve['tolerance']:.1%}"
    ]


def _departures(a: Testimony, b: Testimony) -> list[float]:
    """Relative differences of the losses, step by step; infinite where one is not a number or one is
    missing.
    """
    differences = []
    for x, y in zip(a, b, strict=False):
        if len(x["losses"]) != len(y["losses"]):
            return [math.inf]
        for before, after in zip(x["losses"], y["losses"], strict=True):
            scale = max(abs(before), abs(after), 1e-12)
            difference = (after - before) / scale
            differences.append(difference if math.isfinite(difference) else math.inf)
    return differences


def _size(departures: Sequence[float]) -> float:
    """Root mean square."""
    return math.sqrt(fmean(d * d for d in departures)) if departures else 0.0


def same_samples(a: Testimony, b: Testimony) -> bool:
    """Whether each epoch that both came to the end of had the same samples, in whatever order."""
    ours, theirs = _whole_epochs(a), _whole_epochs(b)
    return all(ours[epoch] == theirs[epoch] for epoch in ours.keys() & theirs.keys())


def _whole_epochs(testimony: Testimony) -> dict[int, Counter[str]]:
    """The samples of every epoch whose batches all came, by its number."""
    samples: dict[int, Counter[str]] = {}
    left: dict[int, int | None] = {}
    for step in testimony:
        for batch in step["samples"]:
            epoch = batch["epoch"]
            samples.setdefault(epoch, Counter()).update(batch["digests"])
            known = left.get(epoch, batch["batches"])
            left[epoch] = known - 1 if known is not None else None
    return {epoch: counted for epoch, counted in samples.items() if left[epoch] == 0}
