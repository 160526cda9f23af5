"""The guard of plans that change the training itself: checks what must still hold in any training.

Such a training has no baseline to compare with, so nothing here says that accuracy is held;
``hasten verify`` trains both to the end for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from ...errors import WorkerError
from ...inside.guarding.one_step import MODEL
from ...inside.techniques.catalog import starts_after
from ...records.messages import Failed, TellShapes
from ...records.plan import BASELINE, Plan
from ...records.trace import Trace
from ...records.trial import Proof
from ...records.verdict import Difference, GuardVerdict, Invariants
from ..trials import Trials
from ..workers.ending import PlanRefused, ScriptOver
from ..workers.worker import Worker
from .checked_steps import LEAST_STEPS
from .unchecked import not_checked, unless_idle

Shapes = Mapping[str, Sequence[int]]

_SETTLED = 2  # steps after which any optimizer has its state


def guard_change(trials: Trials, plan: Plan, changing: Sequence[str], seed: int, steps: int) -> GuardVerdict:
    """Train ``steps`` steps under ``plan`` once all of it is in force: are the losses numbers, and would the
    script save tensors of the baseline's shapes?

    ``changing``: the plan's techniques that change the training.
    """
    try:
        trials.rehearse(plan)
        with ExitStack() as stack:
            reference = stack.enter_context(trials.worker(BASELINE, seed=seed, traced=True, at_once=2))
            reference.wait_started()
            candidate = stack.enter_context(trials.worker(plan, seed=seed, traced=True, at_once=2))
            candidate.wait_started()
            reference.steps(_SETTLED - 1)
            plain = _shapes_in(reference)
            candidate.steps(starts_after(plan) + _SETTLED - 1)
            planned = _shapes_in(candidate)
            trace, proofs = _trained(candidate, steps)
            return unless_idle(judge_change(plain, planned, trace, changing), plan, proofs)
    except (PlanRefused, ScriptOver, WorkerError) as error:
        trials.starts.room.failed(str(error))
        return not_checked(error, tuple(changing))


def _shapes_in(worker: Worker) -> Shapes:
    answer = worker.numerics(TellShapes())
    if isinstance(answer, Failed):
        raise WorkerError(f"what the script would save could not be looked at: {answer.reason}")
    return answer.shapes


def _trained(worker: Worker, steps: int) -> tuple[Trace, Sequence[Proof]]:
    try:
        worker.steps(steps)
    except ScriptOver as over:
        if over.ended.how != "completed":
            raise
        return over.ended.trace, over.ended.proofs
    return worker.trace(), worker.proofs()


def judge_change(plain: Shapes, planned: Shapes, trace: Trace, changing: Sequence[str]) -> GuardVerdict:
    """The verdict on the shapes of both trainings' state and on the plan's losses."""
    names = [name for name, shape in plain.items() if list(planned.get(name, ())) != list(shape)]
    names += [name for name in planned if name not in plain and name.startswith(MODEL)]
    differing = [Difference("shape", name=name) for name in names]
    if not all(step.losses for step in trace):
        differing.append(Difference("losses"))
    lost = next((n for n, step in enumerate(trace, 1) if not all(map(math.isfinite, step.losses))), None)
    if lost is not None:
        differing.append(Difference("number", lost))
    short = len(trace) < LEAST_STEPS and not differing
    return GuardVerdict(
        accuracy="not checked" if short else "not held" if differing else "held",
        steps=len(trace),
        invariants=Invariants(("shapes of checkpoints", "finite losses"), tuple(differing)),
        changes=tuple(changing),
        why_not="short" if short else "",
        needed=LEAST_STEPS if short else None,
    )
