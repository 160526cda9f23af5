"""Where a step's time goes: reads clocks at the seams, and touches nothing that the script computes."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

from .closures import Evaluations
from .given_batches import GivenBatches
from .gpu_phases import Marks
from .passes import Passes
from .raw_step import RawStep
from .timeline import Timeline, clock

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Observer", "clock"]


class Observer:
    """Collects one RawStep after another and passes each to ``on_step`` at the step's end.

    A step ends with an optimizer's step or, if the script has no optimizer or optimizers step within the
    backward pass, with a backward pass. Where updates evaluate their closure many times, as those of LBFGS
    do, each evaluation may be a step: a whole training may be a single update. The time of ``on_step`` itself
    is in no step's time.

    Its methods run once a step, when the script's own work has filled the caches. Then fetching code from
    memory costs more than arithmetic, so they call few functions.
    """

    def __init__(
        self,
        on_step: Callable[[RawStep], None],
        timeline: Timeline | None = None,
        evaluations: bool | None = False,
    ) -> None:
        """``timeline``: also divides the whole run's wall clock. ``evaluations``: whether each evaluation of
        a closure is a step; None: to be found out.
        """
        self._on_step = on_step
        self.timeline = timeline
        self._step = RawStep()
        self._began = clock()
        self._forward_ended: float | None = None
        self._in_eval_mode: dict[int, list[float]] = {}  # seconds of passes with gradients, by root
        self._update_began = self._closure_took = 0.0
        self._watched_before_update = self._updated_within = 0.0
        self.evaluations = Evaluations(evaluations)
        self._first_within = -1  # the first optimizer that stepped within this backward pass
        self._pending = GivenBatches()  # not known yet whether they are trained on
        self._given = GivenBatches()  # this step trains on these
        self.passes = Passes()
        self.counts_inputs = True  # no loader reported this step's samples: count what goes into modules
        self._trains_in: int | None = None  # the thread of the latest step
        self.in_forward = False
        self.in_backward = False
        self.said = False  # whether the script itself marks where a step ends
        self.marks: Marks | None = None  # if phases on a GPU are requested
        self.keep_pace: Callable[[], None] | None = None  # on a GPU, which lags behind its launches

    def save_begins(self) -> None:
        self._step.saves += 1

    # ---- forward
    def forward_begins(self, training: bool = True) -> float:
        """``training`` as in ``forward_ends``."""
        self.in_forward = True
        if self.timeline is not None:
            self.timeline.forward_begins(training)
        if self.marks is not None:
            self.marks("+forward")
        return clock()

    def forward_ends(
        self, began: float, training: bool, mode: bool = True, observations: int = 0, root: int = 0
    ) -> None:
        """``training``: gradients were being recorded; otherwise it was an evaluation. ``mode``: the module's
        own flag. ``observations`` as in ``Timeline.forward_ended``. ``root``: which one, by its id.
        """
        self.in_forward = False
        now = clock()
        if self.timeline is not None:
            self.timeline.forward_ended(training, mode, observations)
        if self.marks is not None:
            self.marks("-forward" if training else "-evaluation")
        step = self._step
        if not training:
            step.evaluations += 1
            self._pending.clear()
            self.counts_inputs = not self._given.most()[0]
            return
        if self._pending:
            self._given.take_in(self._pending)
        step.forwards += 1
        step.forward += now - began
        self._forward_ended = now
        if not mode:
            self._in_eval_mode.setdefault(root, []).append(now - began)
        elif root in self._in_eval_mode:
            self._was_evaluation(self._in_eval_mode.pop(root))

    def _was_evaluation(self, seconds: list[float]) -> None:
        """A module is in training mode again, and no backward pass followed: as without gradients."""
        step, count = self._step, len(seconds)
        step.forwards -= count
        step.evaluations += count
        step.forward -= sum(seconds)

    @property
    def saw_forward(self) -> bool:
        """Whether a forward pass with gradients was seen in this step."""
        return self._step.forwards > 0

    # ---- backward
    def backward_begins(self) -> float:
        """Returns the time at which the backward pass begins, for ``backward_ends``."""
        self.in_backward = True
        self._in_eval_mode.clear()
        if self.timeline is not None:
            self.timeline.backward_begins()
        if self._pending and not self._step.forwards:  # e.g. what is trained is not a module
            self._given.take_in(self._pending)
        if self.marks is not None:
            self.marks("+backward")
        now = clock()
        if self._forward_ended is not None:
            self._step.loss += now - self._forward_ended
            self._forward_ended = None
        return now

    def backward_ends(self, began: float, losses: list[Tensor | float]) -> None:
        self.in_backward = False
        step = self._step
        if self.marks is not None:
            self.marks("-backward")
        step.backward += clock() - began - self._updated_within
        step.backwards += 1
        step.losses += losses
        first, self._first_within, self._updated_within = self._first_within, -1, 0.0
        if first >= 0:
            self.step_ends(first)

    def differentiated(self, seconds: float) -> None:
        """Gradients were computed for this long that are differentiated again: not a pass of its own."""
        self._step.backward += seconds
        if self._forward_ended is not None:
            self._forward_ended += seconds

    def losses_are(self, values: list[float]) -> None:
        """The losses of the last backward pass over all ranks: the seam only saw this rank's."""
        kept = self._step.losses
        count = min(len(kept), len(values))
        if count:
            kept[-count:] = values[:count]

    # ---- data
    def data_waited(
        self, seconds: float, samples: int, elements: int = 0, source: int = 0, last: bool = False
    ) -> None:
        """``elements``: numbers in the tensors of the batch that was waited for; ``source``: the pass over a
        loader that it came from; ``last``: it is one of those that end the pass. Batches that another thread
        fetches come in time or late: the loop says when it takes one only by what goes into the modules.
        """
        if self._is_elsewhere():
            return
        self._step.last_batches |= last
        self.counts_inputs = self.counts_inputs and not samples  # of lists of strings it is not known
        if self.timeline is not None:
            self.timeline.batch_came(samples, source)
        self._pending.add(source, samples, elements)
        self._step.data += seconds
        if self._forward_ended is not None:  # fetching the next batch is not the loss's time
            self._forward_ended += seconds

    def epoch_began(self, seconds: float) -> None:
        """A loader began again, which took these ``seconds``: they count as waiting for data."""
        if self._is_elsewhere():
            return
        self._step.restarts += 1
        self._step.data += seconds
        if self._forward_ended is not None:
            self._forward_ended += seconds

    def _is_elsewhere(self) -> bool:
        return self._trains_in is not None and get_ident() != self._trains_in

    # ---- optimizer and the step's end
    def updated_within(self, seconds: float, optimizer: int) -> None:
        """An optimizer stepped within the backward pass, as one for each parameter may: a hook on it calls
        the step once its gradient is there.
        """
        self._step.update += seconds
        self._updated_within += seconds
        if self._first_within < 0:
            self._first_within = optimizer

    def update_begins(self) -> None:
        self.evaluations.update_begins()
        self._update_goes_on()

    def _update_goes_on(self) -> None:
        if self.marks is not None:
            self.marks("+optimizer")
        step = self._step
        self._watched_before_update = step.data + step.forward + step.loss + step.backward
        self.passes.update_begins()
        self._closure_took = 0.0
        self._update_began = clock()

    def evaluation_begins(self, optimizer: int) -> bool:
        """The closure that the optimizer's step got is called. Returns whether a step ends before."""
        ends = not self.said and self.evaluations.begins(waited=self._step.data > 0)
        if ends:
            self._update_pauses()
            self._end_step(optimizer)
            self._update_goes_on()
        return ends

    def closure_took(self, seconds: float) -> None:
        """The closure that the optimizer's step got and called."""
        self._closure_took += seconds

    def update_ends(self, optimizer: int) -> None:
        self._update_pauses()
        self.evaluations.update_ends()
        if not self.said:
            self._end_step(optimizer)

    def _update_pauses(self) -> None:
        """A closure inside the optimizer's step is not part of the update's time."""
        step = self._step
        inside = step.data + step.forward + step.loss + step.backward - self._watched_before_update
        step.update += clock() - self._update_began - max(inside, self._closure_took)
        self.passes.update_ends()
        if self.marks is not None:
            self.marks("-optimizer")

    def step_said(self) -> None:
        """The script itself marks that a step ends here; from now on nothing else ends one."""
        self.said, self.evaluations.are_steps = True, False
        self._end_step(-1)

    def step_ends(self, optimizer: int) -> None:
        if not self.said:
            self._end_step(optimizer)

    def rest(self) -> RawStep:
        """What came since the last step's end, as a step."""
        self._step.seconds = clock() - self._began
        self._step.samples, self._step.elements = self._given.most()
        return self._step

    def _end_step(self, optimizer: int) -> None:
        if self.keep_pace is not None:
            self.keep_pace()
        step = self._step
        self._trains_in = get_ident()
        if self.marks is not None:
            step.marks = self.marks.end()
        step.optimizer = optimizer
        step.samples, step.elements = self._given.most()
        inputs, elements = self.passes.take()
        if self.counts_inputs:
            step.inputs, step.elements = inputs, step.elements or elements
        step.seconds = clock() - self._began
        self._step = RawStep()
        self._given.clear()
        self._forward_ended = None
        self.counts_inputs = not self._pending.most()[0]
        if self.timeline is not None:
            self.timeline.step_ended(step.inputs)
        self._on_step(step)
        if self.marks is not None:
            self.marks.begin()
        if self.timeline is not None:
            self.timeline.goes_on()
        self._began = clock()
