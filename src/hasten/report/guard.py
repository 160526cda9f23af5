"""What the guard found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.comparison import LossCurve, SingleSteps, StepDeparture
from ..records.verdict import Difference
from .words import percent_words

_EQUAL = {
    "batches": "batches left the loader with other content or in another order",
    "modes": "train/eval flags differ",
    "rates": "learning rates differ",
    "optimizer": "optimizers stepped in another order",
    "streams": "other random numbers were drawn",
    "samples": "an epoch had other samples",
}
_MOST_SHAPES = 3
_MOST_COUNTS = 3
_PARTS = {
    "gradient": "the gradient",
    "update": "the optimizer's update",
    "buffers": "the change of buffers in a step (running statistics)",
    "since parameters": "the change of the parameters over several steps",
    "since buffers": "the change of buffers over several steps (running statistics)",
}
_ADVICE = {
    "killed": "While accuracy is checked, three trainings are in memory at once, and up to seven for a "
    "closer look: free some memory (or train on smaller batches), and tune again.",
    "silent": "Tune again when the machine is less busy.",
    "ended": "Tune again; what its processes printed last is in .hasten, in the folder of the last trial.",
    "script": "If the script fails without hasten, too, mend it; else tune again with another --seed.",
    "short": "Let the script train longer: only its first steps are used.",
    "unrepeatable": "Two runs of the script must be equal from one seed: look for what draws from none (the "
    "clock, uuid, os.urandom), or runs in threads.",
    "no losses": "hasten sees the loss that backward() is called on: it must be there, and a number.",
    "budget": "Tune again with a longer --budget, or when the machine is less busy.",
    "state": "Tune again; if it comes again, leave the technique out that was kept last.",
}


def difference_words(difference: Difference) -> str:
    """What differed, and from which step on."""
    if difference.what == "steps":
        ours, theirs = difference.counts
        return f"one training took {ours} steps, the other {theirs}"
    since = f" (from step {difference.step})" if difference.step is not None else ""
    return f"{_EQUAL[difference.what]}{since}"


def shapes_words(differences: Sequence[Difference]) -> str:
    names = [difference.name for difference in differences[:_MOST_SHAPES]]
    return f"checkpoints have other shapes: {', '.join(names)}"


def too_few_words(steps: int, needed: int, seen: str = "compared") -> str:
    return f"only {steps} steps could be {seen}, and {needed} are needed"


def unrepeatable_words(differences: Sequence[Difference]) -> str:
    found = "; ".join(map(difference_words, differences))
    return f"the script does not repeat itself from one seed ({found}), so nothing can be compared"


def advice(why_not: str) -> str:
    """What to do where accuracy could not be checked."""
    return _ADVICE.get(why_not, "Tune again.")


def loss_reasons(curve: LossCurve) -> list[str]:
    """What there is to say against the losses."""
    if curve.deviation is None:
        return ["losses are missing, or no numbers"]
    if curve.held:
        return []
    return [
        f"the loss departs from the baseline's by {percent_words(curve.deviation, 4)}, "
        f"where rounding explains {percent_words(curve.tolerance or 0.0, 2)}"
    ]


def step_reasons(found: SingleSteps) -> list[str]:
    """What there is to say against single steps."""
    explains = "where other draws explain" if found.draws else "where rounding explains"
    departed = [(_part_words(what), row) for what, row in found.compared.items()]
    reasons = [_departure_words(what, row, explains) for what, row in departed if not row.held]
    mean, tensor, scaled = found.mean_scale, found.worst_tensor, found.worst_scale
    if mean is not None and not mean.held:
        reasons.append(
            f"the gradient is {mean.scale:.3f} times the baseline's in the mean of {len(found.steps)} "
            f"steps, {explains} {percent_words(mean.scale_tolerance or 0.0, 2)}"
        )
    if tensor is not None and not tensor.held:
        reasons.append(_departure_words(f"the gradient of {tensor.tensor}", tensor, explains))
    if scaled is not None and not scaled.held:
        reasons.append(
            f"the gradient of {scaled.tensor} is {scaled.scale:.4f} times the baseline's in most of "
            f"{len(found.steps)} steps, {explains} {percent_words(scaled.scale_tolerance or 0.0, 2)}"
        )
    for step, names in found.counts.items():
        reasons.append(f"{', '.join(names[:_MOST_COUNTS])} in state or buffers differ before step {step}")
    return reasons


def _part_words(what: str) -> str:
    return _PARTS.get(what, f"what the optimizer keeps ({what.removeprefix('since ')})")


def _departure_words(what: str, row: StepDeparture, explains: str) -> str:
    if row.scale is None or row.residual is None:
        return f"{what} holds no numbers in step {row.step}"
    if row.scale_tolerance is not None and abs(row.scale - 1) > row.scale_tolerance:
        return (
            f"{what} is {row.scale:.3f} times the baseline's in step {row.step}, "
            f"{explains} {percent_words(row.scale_tolerance, 2)}"
        )
    return (
        f"{what} departs from the baseline's by {percent_words(row.residual, 4)} in step {row.step}, "
        f"{explains} {percent_words(row.residual_tolerance or 0.0, 2)}"
    )
