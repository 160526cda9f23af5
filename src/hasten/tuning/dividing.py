"""Whether a tune's budget is long enough for an honest answer, once the script has been watched."""

from __future__ import annotations

import math

from ..bench.comparing.steps import Rhythm
from ..bench.script_bench import ScriptBench
from ..errors import Refusal
from ..records.observation import Observation
from ..units import seconds_words
from .budget import Budget
from .progress import Progress
from .request import TuneRequest

_GROWN = 1.3  # times the shortest honest tune: what a budget that nobody named grows to
_SUGGESTED = 1.5


def divide(
    budget: Budget,
    request: TuneRequest,
    observation: Observation,
    rhythm: Rhythm,
    bench: ScriptBench,
    progress: Progress,
) -> None:
    """Divide ``budget``. If it is too short for an honest answer, because the start or steps are slow, it
    grows as far as the request allows.

    Raises Refusal if it is still too short.
    """
    budget.divide(observation, bench.pairs.steps_needed, bench)
    grown = 10.0 * math.ceil(_GROWN * budget.least / 10)
    if budget.seconds < budget.least and grown <= request.budget_most:
        budget.seconds = grown
        budget.divide(observation, bench.pairs.steps_needed, bench)
        progress.grown(grown)
    if budget.seconds < budget.least:
        raise Refusal(
            f"{request.script.label} takes {seconds_words(observation.start_seconds)} to its first step and "
            f"{seconds_words(rhythm.cycle_seconds / rhythm.cycle)} a step, so an honest answer, by fresh "
            f"processes, takes at least {budget.least:.0f} s, and the budget is {budget.seconds:.0f} s: "
            f"try --budget {_SUGGESTED * budget.least:.0f}"
        )
