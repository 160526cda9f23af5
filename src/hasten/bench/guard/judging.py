"""The verdict on trainings that were watched in parallel: is the plan's the same as the baseline's?

What must be equal is compared exactly; losses and single steps from one state and one batch are compared with
what rounding noise of the plan's own size does to a baseline.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

from ...records.comparison import LossCurve, SingleSteps
from ...records.trace import Trace
from ...records.verdict import DRAWN, Difference, GuardVerdict, Invariants
from .checked_steps import LEAST_STEPS, Check, Watched
from .evaluations import judge_evaluations
from .single_steps import NOISE, ROUNDING, judge_steps

TOLERANCE = 4.0  # times the perturbed baseline's difference
# Relative; below it, losses count as equal. A unit that switches at its kink may move them by this much in
# one training and not in the perturbed ones: seen, 0.004% over 60 steps of a harmless plan, 4.5 times theirs.
# No planted fault moves losses by less than 0.05% unless single steps show it.
FLOOR = 1e-4
# The same if single steps from one state agreed: whether a unit switches is chance, and none may in the four
# perturbed trainings. Seen in a harmless plan: 0.026%, theirs 0.0025% at most. In all eleven runs of
# planted faults that move losses by less than 0.1%, single steps show the fault.
AGREED_FLOOR = 1e-3
# In bfloat16 by one rounding of its own. Seen in a language model whose three whole runs ended as well as
# plain's: 0.2%, where four times the perturbed trainings' was 0.16%. Of 42 planted faults under bfloat16 in
# benchmarks/results (guard_alarms, guard_kinds) 13 move losses by less, and single steps show all.
AGREED_IN_BFLOAT16 = ROUNDING["bfloat16"]
_CONSTANT = "the loss is the same number in every step, and no gradients could be compared"
# Root mean square, relative in each step and of all losses together: beyond it, noise of a lower precision's
# size makes another training, and single steps do not tell how that ends. Seen in 259 trainings of
# benchmarks/results/guard_alarms.jsonl: 0.2 in each step at most. Seen where sigmoids that bfloat16 rounds to
# 1 let a network learn nothing in three whole runs of three: 0.4, and 0.5 of all.
PARTED = 0.25
_PARTED = "noise the size of rounding makes another training of it: its losses differ by more than a quarter"


def verdict_on(
    reference: Watched,
    perturbed: Watched,
    candidate: Watched,
    draws: bool,
    precision: str,
    others: Sequence[Watched] = (),
    noisier: Sequence[Check] = (),
) -> GuardVerdict:
    """The verdict on watched trainings: all their steps one after another, and single ones. ``others`` are
    further perturbed baselines, of which one may have only its checks; ``noisier`` as in ``judge_steps``.
    """
    told = [other.trace for other in others if other.trace]
    whole = judge(reference.trace, perturbed.trace, candidate.trace, draws, precision, told)
    if reference.failed:  # no room for its state, for example: the other comparisons must do
        return replace(whole, numerics=SingleSteps(left_out=reference.failed))
    rounded = [check for one in (perturbed, *others) for check in one.checks]
    steps = judge_steps(rounded, candidate.checks, draws, precision, noisier)
    not_compared = steps.left_out
    steps = _with(steps, reference, perturbed, candidate)
    failed = perturbed.failed or candidate.failed
    if failed:
        steps = replace(steps, held=None, left_out=failed)
        if whole.passed:
            return replace(whole, accuracy="not checked", numerics=steps, why_not="state", failure=failed)
        return replace(whole, numerics=steps)
    if steps.held and not draws:
        whole = _as_steps_agreed(whole)
    if whole.passed and steps.held is None and _is_constant(reference.trace):
        whole = replace(whole, accuracy="not checked", why_not="no losses", failure=_CONSTANT)
    elif whole.passed and not draws:
        noise = _noise_alone(whole.loss_curve, not_compared)
        if not noise and precision != "float32" and _parts(whole.loss_curve, reference, [perturbed, *others]):
            noise = _PARTED
        if noise:
            whole = replace(whole, accuracy="not checked", why_not="noise", failure=noise)
    accuracy = "not held" if steps.held is False and whole.passed else whole.accuracy
    return replace(whole, accuracy=accuracy, numerics=steps)


def _with(steps: SingleSteps, reference: Watched, perturbed: Watched, candidate: Watched) -> SingleSteps:
    """Adds the results of evaluations, if the plan lowers their precision."""
    found = judge_evaluations(reference, perturbed, candidate)
    if not found:
        return steps
    held = steps.held is not False and all(one.held for one in found.values())
    return replace(steps, held=held, left_out="", compared={**steps.compared, **found})


def _noise_alone(curve: LossCurve, not_compared: str) -> str:
    """Why losses tell nothing where single steps do not, as ``not_compared`` says; "" if they do. Evaluations
    in lower precision are compared by themselves, and tell nothing of the training.
    """
    if not not_compared or (curve.tolerance or 0.0) <= NOISE:
        return ""
    return f"noise the size of rounding moves the losses by more than half, and {not_compared}"


def _parts(curve: LossCurve, reference: Watched, perturbed: Sequence[Watched]) -> bool:
    """Whether noise makes another training: in single steps, and by all losses, of which those near 0 count
    for little.
    """
    by_steps = (curve.tolerance or 0.0) > TOLERANCE * PARTED
    return by_steps and any(_distance(reference.trace, one.trace) > PARTED for one in perturbed)


def _distance(a: Trace, b: Trace) -> float:
    pairs = [
        (before, after)
        for x, y in zip(a, b, strict=False)
        for before, after in zip(x.losses, y.losses, strict=False)
    ]
    size = math.fsum(before * before for before, _ in pairs)
    return math.sqrt(math.fsum((after - before) ** 2 for before, after in pairs) / size) if size else 0.0


def _is_constant(trace: Trace) -> bool:
    """Whether all losses are one number, as when a script divides its loss by itself: they tell nothing."""
    return len({loss for step in trace for loss in step.losses}) == 1


def _as_steps_agreed(whole: GuardVerdict) -> GuardVerdict:
    """The verdict if only losses were against the plan, and by less than one unit may move them. What
    rounding explains is reported as measured.
    """
    curve = whole.loss_curve
    if whole.accuracy != "not held" or whole.invariants.differing:
        return whole
    floor = AGREED_IN_BFLOAT16 if curve.precision == "bfloat16" else AGREED_FLOOR
    if curve.deviation is None or curve.deviation > floor:
        return whole
    return replace(whole, accuracy="held", loss_curve=replace(curve, held=True))


def judge(
    reference: Trace,
    perturbed: Trace,
    candidate: Trace,
    draws: bool,
    precision: str,
    others: Sequence[Trace] = (),
) -> GuardVerdict:
    """The verdict on traces: a baseline's, a perturbed baseline's, a plan's, and those of ``others`` that
    were perturbed, of which only the losses count.
    """
    if any(step.batches is None for step in candidate):
        reference, perturbed, candidate = map(_by_samples, (reference, perturbed, candidate))
    steps = min(len(reference), len(perturbed))
    unsteady = differing(reference[:steps], perturbed[:steps], draws)
    found = differing(reference, candidate, draws)
    finite = all(map(math.isfinite, _departures(reference[:steps], perturbed[:steps])))
    if (unsteady or not finite or steps < len(reference)) and _is_identical(reference, candidate):
        unsteady, perturbed, others = [], reference, ()  # noise parts the training, and this plan makes none
        steps = len(reference)
    if draws and same_samples(reference, perturbed) and not same_samples(reference, candidate):
        found.append(Difference("samples"))  # which a different order alone cannot cause
    several = [one[:steps] for one in (perturbed, *others)]
    curve = compare_losses(reference[:steps], several, candidate[:steps])
    why_not = _why_not(steps, unsteady, found, _departures(reference[:steps], perturbed[:steps]))
    if why_not == "short" and len(reference) >= LEAST_STEPS:
        why_not = "noise"
    held = curve.held and not found
    return GuardVerdict(
        accuracy="not checked" if why_not else "held" if held else "not held",
        steps=steps,
        invariants=Invariants(tuple(key for key in _COMPARED if not (draws and key in DRAWN)), tuple(found)),
        loss_curve=replace(curve, precision=precision),
        why_not=why_not,
        needed=LEAST_STEPS if why_not in ("short", "noise") else None,
        unsteady=tuple(unsteady),
    )


def steps_to_leave(reference: Trace, perturbed: Trace, draws: bool) -> int:
    """How many steps are not comparable training, such as a search for a learning rate that its losses end:
    rounding changes their number. Those until a training begins again, once the baseline and the perturbed
    one have parted; 0 if they do not, or none begins.
    """
    steps = min(len(reference), len(perturbed))
    parted = [one.step for one in differing(reference[:steps], perturbed[:steps], draws) if one.step]
    begun = (n for n, step in enumerate(reference, 1) if parted and n >= min(parted) and step.begins)
    return next(begun, 1) - 1


def apart_before(reference: Watched, perturbed: Watched, candidate: Watched) -> GuardVerdict | None:
    """The verdict if the steps before the compared ones, all the baseline's, were not the same."""
    for other in (perturbed, candidate):
        found = differing(reference.before, other.before, draws=False)
        if found:
            return GuardVerdict("not checked", why_not="unrepeatable", unsteady=tuple(found))
    return None


def _why_not(
    steps: int, unsteady: Sequence[Difference], found: Sequence[Difference], noise: Sequence[float]
) -> str:
    """Why nothing can be said about the candidate, as in GuardVerdict; "" if it can."""
    if unsteady:
        return "unrepeatable"
    if steps < LEAST_STEPS and not found:
        return "short"
    if not found and not (noise and all(map(math.isfinite, noise))):
        return "no losses"
    return ""


def _is_identical(reference: Trace, candidate: Trace) -> bool:
    """Whether the plan's training is the baseline's, with every loss the same bit for bit."""
    if not reference or differing(reference, candidate, draws=False):
        return False
    return not any(_departures(reference, candidate))


def _by_samples(trace: Trace) -> Trace:
    """Batches as their samples in order, as if no process saw a whole batch."""
    return [replace(step, batches=tuple(" ".join(batch.digests) for batch in step.samples)) for step in trace]


_COMPARED = ("batches", "modes", "rates", "optimizer", "streams")


def differing(a: Trace, b: Trace, draws: bool) -> list[Difference]:
    """Which invariants differ, each with the first step at which it does."""
    found = []
    if len(a) != len(b):
        found.append(Difference("steps", counts=(len(a), len(b))))
    for key in _COMPARED:
        if draws and key in DRAWN:
            continue
        steps = enumerate(zip(a, b, strict=False), 1)
        first = next((n for n, (x, y) in steps if getattr(x, key) != getattr(y, key)), None)
        if first is not None:
            found.append(Difference(key, first))
    return found


def compare_losses(reference: Trace, perturbed: Sequence[Trace], candidate: Trace) -> LossCurve:
    """The candidate's difference from the reference against the largest of the perturbed baselines',
    relative and two-sided.
    """
    ours, theirs = _departures(reference, candidate), [_departures(reference, one) for one in perturbed]
    if not ours or not all(map(math.isfinite, (*ours, *chain(*theirs)))):
        return LossCurve(held=False)
    tolerance = max(FLOOR, TOLERANCE * max(map(_size, theirs)))
    deviation = _size(ours)
    return LossCurve(deviation <= tolerance, deviation, fmean(ours), tolerance)


def _departures(a: Trace, b: Trace) -> list[float]:
    """Relative differences of the losses, step by step; infinite if one is not a number or one is
    missing.
    """
    differences = []
    for x, y in zip(a, b, strict=False):
        if len(x.losses) != len(y.losses):
            return [math.inf]
        for before, after in zip(x.losses, y.losses, strict=True):
            scale = max(abs(before), abs(after), 1e-12)
            difference = (after - before) / scale
            differences.append(difference if math.isfinite(difference) else math.inf)
    return differences


def _size(departures: Sequence[float]) -> float:
    """Root mean square."""
    return math.sqrt(fmean(d * d for d in departures)) if departures else 0.0


def same_samples(a: Trace, b: Trace) -> bool:
    """Whether each epoch that both finished had the same samples, in any order."""
    ours, theirs = _whole_epochs(a), _whole_epochs(b)
    return all(ours[epoch] == theirs[epoch] for epoch in ours.keys() & theirs.keys())


def _whole_epochs(trace: Trace) -> dict[int, Counter[str]]:
    """The samples of every complete epoch, by its number."""
    samples: dict[int, Counter[str]] = {}
    left: dict[int, int | None] = {}
    for step in trace:
        for batch in step.samples:
            samples.setdefault(batch.epoch, Counter()).update(batch.digests)
            known = left.get(batch.epoch, batch.batches)
            left[batch.epoch] = known - 1 if known is not None else None
    return {epoch: counted for epoch, counted in samples.items() if left[epoch] == 0}
