"""Between epochs the script does other work: it samples from a generator, or draws pictures."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .input import made_here
from .of_the_run import cause_in_run

_LEAST_SHARE = 0.05
_TEXT = (
    "passes between an epoch's last step and the next epoch's start, in what the script does there "
    "besides saving, printing and evaluating its model"
)


def look(facts: Facts) -> Cause | None:
    if not made_here(facts):
        return None
    return cause_in_run(facts, "turns", ("epoch turns",), _LEAST_SHARE, _TEXT, ())
