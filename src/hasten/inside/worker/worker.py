"""A worker: the process that runs the user's script under our seams."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import ModuleType

from ...records import messages
from ...records.observation import Observation
from ...records.trace import StepTrace
from ...records.trial import Proof
from .. import script_side
from ..internals.parts import TorchLacks, check
from ..job import AHEAD, CLOCKS, Job
from ..observing.gpu_memory import free_cache
from ..observing.observer import clock
from ..observing.raw_step import RawStep
from ..process.wire import Wire
from ..random_state import seed_before_imports
from ..run_tune.live_tune import LiveTune
from ..run_watch.run_watch import RunWatch, watch_of
from ..sandbox.containment import die_with_parent, dies_with_parent
from ..sandbox.entering import enter_sandbox
from ..sandbox.permission_denied import naming_file
from ..seams import ImportSeam, Seams
from ..source_files import SourceFiles
from ..warned import count_the_scripts_frames
from .children import Children
from .control import Conversation, stop_here
from .exits import exit_of
from .instruments import Instruments
from .kept_run import KeptRun
from .own_groups import OwnGroups
from .own_tune import own_tune_of
from .plan_in_force import PlanInForce
from .run_script import die_as_python_does, run_to_the_end, show_as_python_does
from .run_summary import Summarizer
from .shifted_clocks import Clocks
from .start_times import StartTimes
from .traces import trace_of
from .training_thread import TrainingThread
from .turn import Turn
from .under_plan import UnderPlan


class Worker:
    """One run of the script. Does not use torch before the script imports it."""

    def __init__(self, job: Job, start: StartTimes) -> None:
        self._job = job
        self._start = start
        self._script_began = clock()
        self._steps = 0
        self._seams = Seams(self._watching_failed)
        self._instruments: Instruments | None = None
        self._plan: PlanInForce | None = None  # once torch was imported
        self._metrics: dict[str, float] = {}
        self._summarizer = Summarizer() if job.whole else None
        self._under_plan = UnderPlan(job, self._summarizer)
        self._run_watch: RunWatch | None = None
        self._own_tune: LiveTune | None = None
        self._forking = 0  # the process that forked last
        self._clocks, self._turn = Clocks(), Turn(job.turn)
        self._thread = TrainingThread()
        self._sources = SourceFiles(job.argv[0], job.module)
        wire = Wire.from_descriptor(job.descriptor) if job.descriptor is not None else None
        talk = self._answer, self._sources.new, self._rests
        self._conversation = Conversation(wire, *talk) if wire is not None else None
        self._wire = wire
        self._own_groups = OwnGroups(job)
        self._kept = KeptRun(job, self._seams, self._sources)

    # ---- life
    def run(self) -> None:
        """Run the script to its end, and end the same way."""
        if self._job.ranks is not None and self._job.ranks.cores:
            os.sched_setaffinity(0, self._job.ranks.cores)
        enter_sandbox(self._job.sandbox, self._wire)
        if self._wire is not None or dies_with_parent():
            os.register_at_fork(before=self._about_to_fork, after_in_child=self._in_forked_child)
        if self._job.seed is not None:
            seed_before_imports(self._job.seed)
        script_side.listener = self
        self._own_groups.begin()
        if self._job.rehearsal and os.path.exists(os.path.join(self._job.rehearsal, CLOCKS)):
            self._clocks.install(self._seams)
        if self._conversation is not None and self._summarizer is None:
            Children(self._seams, self._child_came).watch()
        self._kept.begin()
        ImportSeam("torch", self._torch_came).install()
        self._script_began = clock()
        try:
            run_to_the_end(self._job.argv, self._job.module, self._script_ends)
        except BaseException as error:
            self._kept.script_ended(error)
            if self._instruments is not None and self._instruments.this_rank is not None:
                self._instruments.this_rank.script_failed(error)
            show_as_python_does(error)  # before we are stopped: the coordinator will not wait
            self._own_groups.script_failed(error)
            as_asked = self._tell_what_the_plan_did(by_itself=isinstance(error, SystemExit))
            self._tell_failure(error)
            well = isinstance(error, SystemExit) and exit_of(error.code)[0] == "completed"
            die_as_python_does(SystemExit(2) if well and not as_asked else error)
        self._kept.script_ended(None)
        as_asked = self._tell_what_the_plan_did(by_itself=True)
        self._tell_end("completed")
        if not as_asked:
            raise SystemExit(2)

    def _script_ends(self) -> None:
        if self._instruments is not None:
            self._instruments.training.script_ends()

    def _tell_what_the_plan_did(self, by_itself: bool) -> bool:
        """``by_itself``: the script ended by itself. False if ``--strict`` requires more."""
        alone = self._conversation is None or self._summarizer is not None
        seen, plan = self._instruments, self._plan
        if not alone or seen is None or plan is None or not (self._steps or by_itself):
            return True
        if self._own_tune is not None and self._own_tune.active:
            self._own_tune.script_ended()
            return True  # what was on for a few steps has no proof to tell
        return self._under_plan.ended(plan.due, self._steps, seen.training, seen.switchboard)

    def _about_to_fork(self) -> None:
        self._forking = os.getpid()

    def _in_forked_child(self) -> None:
        """A child of the script must not outlive us or keep our end of the conversation open."""
        die_with_parent()
        if os.getppid() not in (self._forking, 0):  # gone before the kernel knew (0: in another namespace)
            os._exit(1)
        if self._wire is not None:
            self._seams.undo_all()  # a child's training is not the measured one
            if self._instruments is not None:
                self._instruments.training.forget()
            self._wire.close()

    def _tell_failure(self, error: BaseException) -> None:
        if isinstance(error, SystemExit):
            self._tell_end(*exit_of(error.code))
        else:
            self._tell_end("raised", naming_file(trace_of(error), error))

    def _tell_end(self, how: str, detail: str = "") -> None:
        if how == "completed" and self._instruments is not None and self._instruments.this_rank is not None:
            sys.stdout.flush()
            self._instruments.this_rank.training_ends()
        if self._conversation is not None:
            rest = self._seen().observer.rest() if self._steps else None
            with suppress(Exception):  # the script may have closed it
                sys.stdout.flush()  # the coordinator does not wait for the interpreter to do so
            seen, proofs = None, list[Proof]()
            with suppress(Exception):  # the script may have left nothing to observe
                seen = self._observe(how) if self._steps else None
                proofs = self._seen().switchboard.proofs() if self._steps else []
            summary = self._summarizer.summary() if self._summarizer is not None else None
            self._conversation.ended(how, detail, self._trace(), seen, summary, rest, proofs)

    def _trace(self) -> tuple[StepTrace, ...]:
        recorder = self._instruments.recorder if self._instruments is not None else None
        return recorder.trace() if recorder is not None else ()

    def _torch_came(self, torch: ModuleType) -> None:
        self._own_groups.torch_came(torch)
        self._kept.torch_came(torch)
        if self._job.is_watched:
            self._seams.watching(self._watch)(torch)

    def _watch(self, torch: ModuleType) -> None:
        check(torch.__version__)
        count_the_scripts_frames(self._seams)
        how = (self._step_ended, self._root_found, self._script_began, self._sources)
        seen = self._instruments = Instruments(torch, self._job, self._seams, *how)
        in_run = self._wire is None or self._summarizer is not None
        under_plan = self._under_plan if in_run else None
        self._plan = PlanInForce(self._job, seen, under_plan, self._observe, self._refused)
        self._kept.under_plan(seen.training, self._under_plan, lambda: self._steps)
        self._turn.watch(seen.hooks)
        self._run_watch = watch_of(self._job, seen.training)
        self._own_tune = own_tune_of(self._job, seen, self._plan, self._observe)

    def _watching_failed(self, error: BaseException) -> None:
        """Our own watching failed and all seams are undone: the script runs on without us."""
        if self._instruments is not None:
            self._instruments.lose()
        bug = not isinstance(error, TorchLacks)
        detail = trace_of(error) if bug else str(error)
        self._kept.watching_failed(detail)
        if self._conversation is not None:
            self._conversation.watching_failed(detail, bug)
        elif self._job.ranks is not None:  # alone, each would train a separate model
            from ..distributed.parting import fail_as

            ours = "part of hasten failed. Please report this:\n" if bug else ""
            fail_as(self._job.ranks)(f"{ours}{detail.rstrip()}")
        else:
            self._under_plan.say_it_is_lost(detail, bug)

    def _child_came(self, name: str) -> None:
        if self._conversation is not None:
            self._conversation.child_came(name)

    def _rests(self) -> None:
        if self._job.frees_gpu and self._instruments is not None:
            free_cache(self._instruments.training.torch)

    # ---- what the script says
    def step_said(self) -> None:
        if self._instruments is not None:
            self._seams.watching(self._instruments.observer.step_said)()

    def metric_said(self, values: dict[str, float]) -> None:
        self._metrics.update(values)
        if self._summarizer is not None:
            self._summarizer.metric_said(values)

    # ---- during training
    def _root_found(self) -> None:
        if self._plan is not None:
            self._plan.part_came()

    def _refused(self, answer: messages.Refused) -> None:
        """Like a run under the plan, except that a technique that does not apply fails the trial."""
        assert self._wire is not None
        self._wire.send(answer)
        stop_here()

    def _step_ended(self, step: RawStep) -> None:
        instruments = self._instruments
        assert instruments is not None
        if not self._thread.is_this(instruments.training):
            return
        self._steps += 1
        self._in_force().step_ended(self._steps)
        if self._steps == 1:
            spared = instruments.switchboard.spared_seconds
            self._start.first_step_ended(self._turn.waited, self._set_up_seconds(), spared)
            instruments.training_begins()
        if self._job.rehearsal and os.path.exists(os.path.join(self._job.rehearsal, AHEAD)):
            self._clocks.step_ended()
        if instruments.recorder is not None:
            instruments.recorder.step_ended(step)
        instruments.training.step_ended()
        instruments.step_ended(step)
        if self._summarizer is not None:
            self._summarizer.step_ended(step)
        if self._own_tune is not None:
            self._own_tune.step_ended(step)
        trying = self._own_tune is not None and self._own_tune.active
        if self._run_watch is not None and not (trying or self._kept.is_played_back):
            self._run_watch.step_ended(step)
        if self._conversation is not None and self._summarizer is None:
            self._conversation.step_ended(step)

    def _seen(self) -> Instruments:
        """Available once torch was imported."""
        assert self._instruments is not None
        return self._instruments

    def _in_force(self) -> PlanInForce:
        """Available once torch was imported."""
        assert self._plan is not None
        return self._plan

    # ---- answers
    def _answer(self, request: messages.Message) -> messages.Message:
        """The answer to any request except TrainSteps."""
        if isinstance(request, messages.StepRequest):
            numerics = self._seen().numerics
            assert numerics is not None
            return numerics.answer(request)
        match request:
            case messages.Observe():
                self._seen().hooks.loaders.look_at_sampling()
                return messages.Observed(self._observe())
            case messages.SwitchPlan():
                plan = self._in_force()
                return plan.switch(request.plan) or messages.Switched(plan.setup_seconds)
            case messages.ShowProofs():
                return self._proofs()
            case messages.TellTrace():
                return messages.Traced(self._trace())
            case messages.TellFindings():
                return messages.Rehearsed(self._seen().rehearsed())
        raise messages.UnknownMessage(f"a worker is not asked for {type(request).__name__}")

    def _proofs(self) -> messages.Proofs:
        board = self._seen().switchboard
        set_up, spared = self._set_up_seconds(), board.spared_seconds
        start, own = self._start.without_set_up, self._start.own_seconds
        return messages.Proofs(tuple(board.proofs()), set_up, start, spared, own)

    def _set_up_seconds(self) -> float:
        return self._in_force().setup_seconds + self._seen().switchboard.seconds_in_steps()

    def _observe(self, over: str = "") -> Observation:
        return self._seen().observation(self._steps, self._start.to_first_step, self._metrics, over)
