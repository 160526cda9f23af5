"""Between epochs the script does other work: it samples from a generator, or draws pictures."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .of_the_run import breakdown, cause_in_run

_LEAST_SHARE = 0.05
_TEXT = (
    "passes between an epoch's last step and the next epoch's start, in what the script does there "
    "besides what was seen of saving, printing and evaluating its model"
)


def look(facts: Facts) -> Cause | None:
    return cause_in_run(facts, "turns", "epoch turns", _LEAST_SHARE, _TEXT, (), more=-workers_end(facts))


def starts_anew(facts: Facts) -> bool:
    """Whether each epoch has worker processes of its own."""
    return any(loader.workers and not loader.keeps_workers for loader in facts.observation.training_loaders)


def workers_end(facts: Facts) -> float:
    """The share of the run that ending such workers may take between epochs: no more than their start."""
    seen = breakdown(facts)
    if seen is None or not starts_anew(facts):
        return 0.0
    return min(seen.share("epoch turns"), seen.share("first batches"))
