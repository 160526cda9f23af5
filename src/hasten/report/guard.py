"""What the guard found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.verdict import Difference

_EQUAL = {
    "batches": "batches left the loader with other content or in another order",
    "modes": "train/eval flags differ",
    "rates": "learning rates differ",
    "optimizer": "optimizers stepped in another order",
    "streams": "other random numbers were drawn",
    "samples": "an epoch had other samples",
}
_MOST_SHAPES = 3
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
