"""``hasten run --tune``: what a run may try by itself, in its own steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from .starting import say, why_several

if TYPE_CHECKING:
    from ..records.diagnosis import Distribution
    from ..records.machine import Machine
    from ..records.plan import Plan
    from ..records.run_tuning import RunTuning
    from ..scripts.workspace import Script


def tuning_of(
    arguments: SimpleNamespace, script: Script, machine: Machine, distribution: Distribution, plan: Plan
) -> RunTuning | None:
    """What the run may try; None if that was not asked for. Raises UsageError if it is impossible."""
    if not (arguments.tune or arguments.retune_every):
        return None
    from ..records.run_tuning import RunTuning
    from ..tuning.known_here import known_here

    _refuse_ranks(arguments, distribution, plan)
    known = known_here(script, machine)
    steps, seconds = arguments.retune_every or (None, None)
    if arguments.tune:
        also = (
            f", and {', '.join(known.passed.techniques)}: the guard has passed it here"
            if known.passed
            else ""
        )
        say(f"trying techniques that change nothing but rounding in the first steps of this training{also}")
    return RunTuning(known.passed, known.steps, arguments.tune, steps, seconds)


def _refuse_ranks(arguments: SimpleNamespace, distribution: Distribution, plan: Plan) -> None:
    """Each rank would choose by its own clock, and they would train different models."""
    from ..errors import UsageError

    option = "--tune" if arguments.tune else "--retune-every"
    why = why_several(arguments, distribution, plan)
    if why:
        raise UsageError(
            f"{option} tries techniques in a training of one process, and {why}: each rank would choose by "
            "its own clock. Leave it out, and tune before: hasten tune"
        )
