"""The run as its own tune sees it: what is known of the training, and how a plan is put in force for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...records.facts import Facts
from ...records.observation import Observation
from ...records.plan import Plan
from ...saying import say
from ..job import Job
from ..observing.raw_step import RawStep
from ..run_tune.live_tune import LiveTune
from .control import step_records
from .instruments import Instruments
from .plan_in_force import PlanInForce


class OwnRun:
    """The run of this process, for its own tune."""

    def __init__(
        self, job: Job, seen: Instruments, plan: PlanInForce, observe: Callable[[], Observation]
    ) -> None:
        self._job, self._seen, self._plan, self._observe = job, seen, plan, observe

    def facts(self, steps: Sequence[RawStep], cycle: int) -> Facts:
        told = step_records(steps)
        sizes = Counter(step.samples for step in told if step.samples)
        size = sizes.most_common(1)[0][0] if sizes else None
        seen = self._seen.living(self._observe())
        return Facts(self._job.machine, replace(seen, steps=told, cycle=cycle, batch_size=size))

    def adopt(self, plan: Plan) -> None:
        self._plan.adopt(plan)

    def let_go(self) -> None:
        self._seen.lose()
        self._seen.training.seams.undo_all()

    def sync(self) -> bool:
        torch, roots = self._seen.training.torch, self._seen.training.roots
        firsts = (next(root.parameters(), None) for root in roots)
        if all(one is None or one.device.type != "cuda" for one in firsts):
            return False
        torch.cuda.synchronize()
        return True

    def say(self, text: str) -> None:
        say(f"hasten: {text}", lines=True)


def own_tune_of(
    job: Job, seen: Instruments, plan: PlanInForce, observe: Callable[[], Observation]
) -> LiveTune | None:
    """The tune of a run that tries techniques; None if it does not."""
    if job.tuning is None:
        return None
    run = OwnRun(job, seen, plan, observe)
    tune = LiveTune(job.tuning, job.plan, seen.training, seen.switchboard, run)
    plan.before_parts = tune.parts_came
    return tune
