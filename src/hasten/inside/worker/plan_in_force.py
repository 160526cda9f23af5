"""When a worker's plan is put in force, and what happens with models and optimizers that appear later."""

from __future__ import annotations

from collections.abc import Callable

from ...records import messages
from ...records.observation import Observation
from ...records.plan import BASELINE, Plan
from ..job import Job
from ..techniques.catalog import CATALOG
from ..training import NotApplicable
from .instruments import Instruments, Mark
from .under_plan import UnderPlan


class PlanInForce:
    """The job's plan waits for something to train. Whenever a model or an optimizer appears after that, for
    example for another training, it is put in force again before that is trained.
    """

    def __init__(
        self,
        job: Job,
        instruments: Instruments,
        under_plan: UnderPlan | None,
        observe: Callable[[], Observation],
        refused: Callable[[messages.Refused], None],
    ) -> None:
        """``under_plan``: for a run; None in a trial, where techniques that do not apply are ``refused``."""
        self.due = job.plan
        self.setup_seconds = 0.0
        self._plan = job.plan
        self._instruments, self._training = instruments, instruments.training
        self._under_plan, self._observe, self._refused = under_plan, observe, refused
        self.before_parts: Callable[[], None] | None = None  # told when models or optimizers are taken in
        self._mark: Mark | None = None  # when the plan was put in force last
        self._training.before_passes = self._before_pass if self.due else None
        instruments.hooks.on_optimizer = self.part_came

    def part_came(self) -> None:
        """A model was found, and is called next, or an optimizer was created."""
        if not self.due:
            self._training.before_passes = self._take_in

    def step_ended(self, steps: int) -> None:
        """The script has taken ``steps`` steps."""
        self._training.steps = steps
        if self.due:  # for example, no model was called before it
            self._begin()
            self._training.changed = False
        elif self._training.changed:
            self._take_in()
        if self._under_plan is not None:
            self._under_plan.step_ended(steps, self._instruments.switchboard)

    def switch(self, plan: Plan) -> messages.Refused | None:
        """Put ``plan`` in force, set-up included; returns the answer if one of its techniques refuses, or one
        of another plan cannot be switched off.
        """
        switchboard = self._instruments.switchboard
        try:
            self.setup_seconds = switchboard.switch(plan, prepare=True)
        except NotApplicable as error:
            return messages.Refused(switchboard.failed, str(error))
        if (left := switchboard.left_on) is not None:
            switchboard.switch(BASELINE)
            return messages.Refused(*left)
        return None

    def adopt(self, plan: Plan) -> None:
        """A run puts another plan in force, for what it trains later, too."""
        assert self._under_plan is not None
        self._plan = plan
        with self._instruments.setting_up():
            self._put_in_force(self._under_plan)

    # ---- inside
    def _before_pass(self) -> None:
        """A root is called. Many scripts call their model before there is anything to train, for example to
        print shapes: the plan waits for an optimizer and, if it needs samples, for a batch.
        """
        needs = any(CATALOG[name].needs_samples for name in self.due.techniques)
        if self._training.has_optimizers and (self._training.training_datasets or not needs):
            self._begin()

    def _begin(self) -> None:
        self._training.before_passes = None
        plan, self.due = self.due, BASELINE
        with self._instruments.setting_up():
            if self._under_plan is not None:
                self._put_in_force(self._under_plan)
            elif (refused := self.switch(plan)) is not None:
                self._refused(refused)

    def _take_in(self) -> None:
        """Models or optimizers have appeared since the plan was put in force."""
        self._training.before_passes = None
        if not self._training.changed:
            return
        if self.before_parts is not None:
            self.before_parts()
        with self._instruments.setting_up():
            if self._under_plan is None:
                self._instruments.switchboard.refresh(prepare=True)
            elif self._plan:
                self._put_in_force(self._under_plan)
        self._training.changed = False

    def _put_in_force(self, under_plan: UnderPlan) -> None:
        instruments, steps = self._instruments, self._training.steps
        under_plan.so_far(instruments.switchboard, steps)
        instruments.switchboard.switch(BASELINE)  # some techniques change what is observed
        seen = instruments.living(self._observe())
        alone = instruments.only_since(self._mark, seen) if self._mark is not None else None
        under_plan.put_in_force(
            self._plan, instruments.switchboard, [seen] if alone is None else [seen, alone], steps
        )
        self._mark = instruments.mark()
