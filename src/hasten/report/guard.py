"""What the guard found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.comparison import LossCurve, SingleSteps, StepDeparture
from ..records.verdict import Difference, GuardVerdict, Shortfall, TooLittleTime
from ..units import counted
from .words import percent_words

_EQUAL = {
    "batches": "batches came from the loader with different content or in a different order",
    "modes": "train/eval flags differ",
    "rates": "learning rates differ",
    "optimizer": "optimizers stepped in a different order",
    "streams": "different random numbers were drawn",
    "inputs": "models were given different batches, which no loader made",
    "samples": "an epoch had different samples",
    "losses": "losses are missing",
}
_DECIDES = ": perhaps its losses decide what it does next, and noise the size of rounding changes that"
_CUT_SHORT = "time ran out before more baselines could show whether this is rounding: try a larger --budget"
_MOST_SHAPES = 3
_MOST_COUNTS = 3
_PARTS = {
    "gradient": "the gradient",
    "update": "the optimizer's update",
    "buffers": "the change of buffers in one step (running statistics)",
    "evaluation": "what the model returns in an evaluation",
    "printed": "what the script prints about an evaluation",
    "since parameters": "the change of the parameters over several steps",
    "since buffers": "the change of buffers over several steps (running statistics)",
}
_ENDED = 0.9  # of a budget spent: it is at its end
_SLOW_PAIRS = 1.2  # times as long as foreseen
_DISTURBED = 0.1  # of the blocks
_ADVICE = {
    "killed": "The accuracy check holds three trainings in memory at once, and up to seven for a "
    "closer look: free some memory (or train on smaller batches), and tune again.",
    "silent": "Tune again when the machine is less busy.",
    "ended": "Tune again; what its processes printed last is in .hasten, in the folder of the last trial.",
    "script": "If the script also fails without hasten, fix it; otherwise tune again with another --seed.",
    "short": "Let the script train longer: only its first steps are compared.",
    "noise": "The training does not bear so much rounding: look for what comes close to dividing by zero, or "
    "to a matrix that is not positive definite.",
    "unrepeatable": "Two runs from one seed must be equal: look for what ignores the seed (the "
    "clock, uuid, os.urandom), or runs in threads or processes of its own.",
    "no losses": "hasten sees the loss that backward() is called on: it must exist, and be a number.",
    "budget": "Tune again with a longer --budget, or when the machine is less busy.",
    "idle": "Leave it out, or let the script train long enough for it to take effect.",
    "state": "Tune again; if it recurs, leave out the technique that was kept last.",
}


def reasons(verdict: GuardVerdict) -> list[str]:
    """Why accuracy is not held or could not be checked; empty if it is held."""
    if verdict.budget is not None:
        return [_budget_words(verdict.budget)]
    if verdict.why_not == "state":
        return [f"single steps could not be compared: {verdict.failure}"]
    if verdict.failure:
        return [verdict.failure]
    return [
        *_unchecked_words(verdict),
        *_difference_reasons(verdict.invariants.differing),
        *(loss_reasons(verdict.loss_curve) if verdict.loss_curve else []),
        *(step_reasons(verdict.numerics) if verdict.numerics.held is not None else []),
        *([_CUT_SHORT] if verdict.cut_short else []),
    ]


def accuracy_words(guard: GuardVerdict) -> str:
    """What a tune says about accuracy at its end."""
    if guard.why_not == "budget" and guard.budget is not None and not guard.budget.techniques:
        return "Accuracy was checked; the gain was not confirmed."
    if guard.unchecked:
        return "Something was faster, but its accuracy was not checked; what was tried is listed above."
    if not guard.passed:
        return f"Accuracy is not held: {'; '.join(reasons(guard))}."
    if guard.changes:
        return (
            f"Accuracy was not judged: {', '.join(guard.changes)} changes the training itself. "
            f"Losses stayed finite over {guard.steps} steps, and checkpoints kept their shapes. "
            "Faster means more samples in the same time, not how soon the model is as good."
        )
    curve = guard.loss_curve
    same, explains = "batches, flags, learning rates and random draws", "rounding explains"
    if "streams" not in guard.invariants.compared:
        same = "flags and learning rates, different draws from the same distributions"
        explains = "different draws explain"
    losses = (
        f"the loss stays within {percent_words(curve.deviation or 0.0, 2)} of plain's, where "
        f"{explains} {_allowed_words(curve.tolerance or 0.0)}{_agreed(curve)}"
    )
    if curve.deviation == 0:
        losses = "every loss equals plain's to the last bit"
    return (
        f"Accuracy held over {guard.steps} steps{_after(guard)}: same {same}; {losses}"
        f"{_single_steps(guard.numerics)}{_evaluations(guard.numerics)}."
    )


def _allowed_words(tolerance: float) -> str:
    """Beyond 100% the digits say nothing more: where what is compared is almost zero, it is all rounding."""
    return percent_words(tolerance, 2) if tolerance <= 1 else "more than 100%"


def _after(guard: GuardVerdict) -> str:
    """If another training comes first, for example a search for its learning rate."""
    if not guard.after:
        return ""
    return f" from step {guard.after + 1} on (its losses decide how long the part before that takes)"


def _agreed(curve: LossCurve) -> str:
    """If the losses differ by more than that."""
    if (curve.deviation or 0.0) <= (curve.tolerance or 0.0):
        return ""
    return " (more than that, but little, and single steps agree, so it counts as equal)"


def _single_steps(numerics: SingleSteps) -> str:
    """What to add on gradients, if they were compared."""
    if not numerics:
        return ""
    if numerics.held is None:
        return f"; single steps were not compared ({numerics.left_out})"
    gradient = numerics.compared.get("gradient")
    if gradient is None:
        return ""
    if gradient.residual == 0:
        return "; gradients of single steps equal plain's to the last bit"
    explains = "different draws explain" if numerics.draws else "rounding explains"
    return (
        f"; gradients of single steps are {gradient.scale:.3f} times plain's at worst, where {explains} "
        f"{_allowed_words(gradient.scale_tolerance or 0.0)}"
    )


def _evaluations(numerics: SingleSteps) -> str:
    """What to add on evaluations, if the plan lowers their precision."""
    found = numerics.compared.get("evaluation")
    if found is None:
        return ""
    told = numerics.compared.get("printed")
    numbers = (
        f", and the numbers printed of them within {percent_words(told.residual or 0.0, 2)}" if told else ""
    )
    return (
        f"; what evaluations return stays within {percent_words(found.residual or 0.0, 2)} of what it is in "
        f"full precision{numbers}, where {percent_words(found.residual_tolerance or 0.0, 2)} is allowed"
    )


def _budget_words(budget: TooLittleTime) -> str:
    what = ", ".join(budget.techniques)
    could = f"{what} could be checked and then confirmed" if what else "what was faster could be confirmed"
    short = shortfall_words(budget.seen)
    if not short:
        return f"the budget ended before {could}: try --budget {budget.enough}"
    return f"the budget was too short before {could}: {short}. Try --budget {budget.enough}"


def shortfall_words(seen: Shortfall | None) -> str:
    """What a tune's end takes that does not fit; "" if the budget is spent, or that is not known."""
    if seen is None or seen.spent > _ENDED * seen.of:
        return ""
    text = f"after {seen.spent:.0f} s of {seen.of:.0f} s that takes {seen.needed:.0f} s more"
    slow, disturbed = seen.times >= _SLOW_PAIRS, seen.disturbed >= _DISTURBED
    if slow:
        text += f"; a pair of processes takes {seen.times:.1f} times as long as foreseen at the beginning"
    if disturbed:
        text += f"; other programs took processor time from {seen.disturbed:.0%} of the blocks of steps"
    return f"{text}: tune when the machine is less busy" if slow or disturbed else text


def _unchecked_words(verdict: GuardVerdict) -> list[str]:
    """Why the script itself cannot be compared."""
    if verdict.unsteady:
        found = "; ".join(map(difference_words, verdict.unsteady))
        if all(difference.step is not None and difference.step > 1 for difference in verdict.unsteady):
            found += _DECIDES
        return [f"two runs from one seed differ ({found}), so nothing can be compared"]
    if verdict.why_not == "noise":
        size = f"with noise the size of rounding in {verdict.loss_curve.precision}"
        return [f"{size}, the script ends after {counted(verdict.steps, 'step')}"]
    if verdict.needed is not None:
        looked = "seen" if verdict.changes else "compared"
        return [f"only {counted(verdict.steps, 'step')} could be {looked}, and {verdict.needed} are needed"]
    return []


def _difference_reasons(differing: Sequence[Difference]) -> list[str]:
    """Shapes share one sentence that names a few of them."""
    shapes = [difference.name for difference in differing if difference.what == "shape"]
    others = [difference_words(difference) for difference in differing if difference.what != "shape"]
    if shapes:
        return [f"checkpoints have different shapes: {', '.join(shapes[:_MOST_SHAPES])}", *others]
    return others


def difference_words(difference: Difference) -> str:
    """What differed, and from which step on. Not for shapes, which ``reasons`` groups."""
    if difference.what == "steps":
        ours, theirs = difference.counts
        return f"one training took {counted(ours, 'step')}, the other {theirs}"
    if difference.what == "number":
        return f"the loss is not a number in step {difference.step}"
    since = f" (from step {difference.step})" if difference.step is not None else ""
    return f"{_EQUAL[difference.what]}{since}"


def advice(why_not: str) -> str:
    """What to do if accuracy could not be checked."""
    return _ADVICE.get(why_not, "Tune again.")


def loss_reasons(curve: LossCurve) -> list[str]:
    """What is wrong with the losses."""
    if curve.deviation is None:
        return ["losses are missing, or not numbers"]
    if curve.held:
        return []
    return [
        f"the loss differs from the baseline's by {percent_words(curve.deviation, 4)}, "
        f"where rounding explains {percent_words(curve.tolerance or 0.0, 2)}"
    ]


def step_reasons(found: SingleSteps) -> list[str]:
    """What is wrong with single steps."""
    explains = "where different draws explain" if found.draws else "where rounding explains"
    departed = [(_part_words(what), row) for what, row in found.compared.items()]
    reasons = [_departure_words(what, row, explains) for what, row in departed if not row.held]
    mean, tensor, scaled = found.mean_scale, found.worst_tensor, found.worst_scale
    if mean is not None and not mean.held:
        reasons.append(
            f"the gradient is {mean.scale:.3f} times the baseline's on average over "
            f"{counted(len(found.steps), 'step')}, {explains} {percent_words(mean.scale_tolerance or 0.0, 2)}"
        )
    if tensor is not None and not tensor.held:
        reasons.append(_departure_words(f"the gradient of {tensor.tensor}", tensor, explains))
    if scaled is not None and not scaled.held:
        steps = counted(len(found.steps), "step")
        reasons.append(
            f"the gradient of {scaled.tensor} is {scaled.scale:.4f} times the baseline's in most of "
            f"{steps}, {explains} {percent_words(scaled.scale_tolerance or 0.0, 2)}"
        )
    for step, names in found.counts.items():
        reasons.append(f"{', '.join(names[:_MOST_COUNTS])} in state or buffers differ before step {step}")
    return reasons


def _part_words(what: str) -> str:
    return _PARTS.get(what, f"what the optimizer keeps ({what.removeprefix('since ')})")


def _departure_words(what: str, row: StepDeparture, explains: str) -> str:
    if row.scale is None or row.residual is None:
        return f"{what} is not a number in step {row.step}"
    if row.scale_tolerance is not None and abs(row.scale - 1) > row.scale_tolerance:
        return (
            f"{what} is {row.scale:.3f} times the baseline's in step {row.step}, "
            f"{explains} {percent_words(row.scale_tolerance, 2)}"
        )
    return (
        f"{what} differs from the baseline's by {percent_words(row.residual, 4)} in step {row.step}, "
        f"{explains} {percent_words(row.residual_tolerance or 0.0, 2)}"
    )
