"""The coordinator's side of a worker process: start it, talk to it, stop it. It never outlives us."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...errors import Refusal, WorkerError
from ...inside.job import Job
from ...inside.process.orphans import end_all_below
from ...inside.process.wire import Hangup, Wire
from ...launch.exit_codes import how_it_ended
from ...launch.one_process import render
from ...records import messages
from ...records.observation import Observation, Step
from ...records.plan import BASELINE, Plan
from ...records.ranks import Findings
from ...records.trace import StepTrace
from ...records.trial import Proof
from .ending import WATCHING_FAILED, Killed, PlanRefused, ScriptEnded, ScriptOver, Silence, trains_elsewhere
from .limit import Limit, rest_of
from .listening import Tee
from .process_start import START_SECONDS, start_process
from .worker import Heard
from .worker_output import Output, keep_ends

CHILD_SECONDS = 90.0  # without a step, once the script has started processes that may train instead
SILENCE_SECONDS = 120.0  # a step may be slow, but not endless
_LAST_WORDS_SECONDS = 5.0

Imported = Callable[[Sequence[str]], None]


class WorkerProcess:
    """One worker. After ``start`` it waits at the end of its first step."""

    def __init__(
        self,
        job: Job,
        environment: Mapping[str, str],
        output: Output,
        inherits: Sequence[int] = (),
        imported: Imported = lambda paths: None,
    ) -> None:
        """``inherits``: descriptors that stay open in it. ``imported`` gets the files of the modules that
        its script imports.
        """
        ours, theirs = socket.socketpair()
        argv, variables = render(replace(job, descriptor=theirs.fileno()), environment)
        with contextlib.closing(theirs):
            process = start_process(argv, variables, (theirs.fileno(), *inherits), output)
        self.begin(job, ours, process, output, imported)

    def begin(
        self,
        job: Job,
        ours: socket.socket,
        process: subprocess.Popen[bytes],
        output: Output,
        imported: Imported,
    ) -> None:
        """Start the conversation with the worker for ``job`` that ``process`` is, or started."""
        self.plan = job.plan
        self.history: list[Step] = []
        self.setup_seconds = self.start_seconds = self.spared_seconds = self.own_seconds = 0.0
        self.protection = ""
        self.child = ""  # the first process that the script started itself before its first step
        self.uppers: Mapping[str, str] = {}  # where its writes go, by place
        self._denied = ""  # as in ScriptEnded
        self._stands_in = output.stands_in
        self._imported = imported
        self.limit = Limit()  # that of its trials, if any: then waiting ends with BudgetOver
        self._contained = False  # the kernel ends everything it started with it
        self._wire = Wire(ours)
        self._process = process
        self._tee: Tee | None = None
        if output.heard is not None and process.stdout is not None:
            self._tee = Tee(process.stdout, output.stdout, output.heard)
        self._files = [path for path in (output.stdout, output.stderr) if path is not None]
        self.who = "the script"  # the subject of error messages
        self.occasion = ""  # "the rehearsal", if that says more than the request
        self._sandboxed = job.sandbox is not None
        self._must_be_sandboxed = job.sandbox is not None and job.sandbox.required

    # ---- conversation
    def wait_started(self, timeout: float = START_SECONDS) -> None:
        """Return once the first step is done.

        Raises ScriptOver, PlanRefused, Refusal (no protection) or WorkerError.
        """
        self._wait_sandboxed(timeout)
        doing = "reaching its first training step"
        message = self._receive(timeout, doing)
        if isinstance(message, messages.ChildStarted):
            self.child = message.name
            try:
                message = self._receive(min(timeout, CHILD_SECONDS), doing)
            except Silence:
                raise Refusal(trains_elsewhere(self.child)) from None
        if isinstance(message, messages.Refused):
            raise PlanRefused(message.technique, message.reason)
        self._take(self._must_be(messages.StepsDone, message, doing).steps)

    def steps(self, count: int, timeout: float | None = None) -> list[Step]:
        """Let the script train ``count`` steps and return them. Raises ScriptOver if it ends before."""
        doing = f"training {count} steps{f' under {self.plan.label}' if self.plan else ''}"
        timeout = timeout or SILENCE_SECONDS + self._expected(count)
        return self._take(self._ask(messages.TrainSteps(count), doing, timeout).steps)

    def switch(self, plan: Plan) -> str:
        """Put the live part of ``plan`` in force; returns why not if a technique cannot take effect,
        otherwise "".
        """
        if plan == self.plan:
            return ""
        doing = f"{(plan or self.plan).label} was switched {'on' if plan else 'off'}"
        answer = self._ask(messages.SwitchPlan(plan), doing, START_SECONDS)
        if isinstance(answer, messages.Refused):
            self.plan = BASELINE
            return f"{answer.technique}: {answer.reason}"
        self.plan = plan
        self.setup_seconds = answer.setup_seconds
        return ""

    def observation(self) -> Observation:
        """What was seen of its training so far."""
        return self._ask(messages.Observe(), "it was watched").observation

    def proofs(self) -> tuple[Proof, ...]:
        """Whether the techniques in force took effect. Updates ``setup_seconds``, ``spared_seconds``,
        ``start_seconds`` and ``own_seconds``.
        """
        doing = f"{self.plan.label} was tried" if self.plan else "it was watched"
        answer = self._ask(messages.ShowProofs(), doing)
        self.setup_seconds, self.start_seconds = answer.setup_seconds, answer.start_seconds
        self.spared_seconds, self.own_seconds = answer.spared_seconds, answer.own_seconds
        return answer.proofs

    def trace(self) -> tuple[StepTrace, ...]:
        """The trace of the steps so far, from a worker whose job records it."""
        return self._ask(messages.TellTrace(), "its training was compared").steps

    def finish(self, timeout: float | None) -> tuple[ScriptEnded, str]:
        """Wait for the end of a whole training: how its script ended, and why that is a failure, or "".

        ``timeout`` in seconds; None waits for ever. Raises Refusal (no protection) or WorkerError.
        """
        doing = "training to its end"
        try:
            self._wait_sandboxed(START_SECONDS)
            self._receive(timeout, doing)
        except ScriptOver as over:
            try:
                code = self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise Silence("the script reached its end, but its process did not end") from None
            self._hear_out()
            if over.ended.how != "completed":
                return over.ended, str(over)
            return over.ended, self._how_it_ended() if code else ""
        raise WorkerError(f"the script said something else than its end while {doing}")

    def rehearsed(self) -> Findings:
        """What a rehearsal of ranks found in this one."""
        return self._ask(messages.TellFindings(), "it was rehearsed", START_SECONDS).findings

    def numerics(self, request: messages.Request[Heard]) -> Heard:
        """Ask about single steps."""
        return self._ask(request, "single steps were compared")

    def pause(self) -> None:
        """Stop all its processes, so that another worker can be timed."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it and everything it started, at once."""
        if not self._contained and self._process.poll() is None:
            end_all_below(self._process.pid)
        self.send_signal(signal.SIGKILL)
        self._process.wait()
        self._hear_out()
        self._wire.close()
        for path in self._files:
            keep_ends(path)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- inside
    def _wait_sandboxed(self, timeout: float) -> None:
        """Receive how the worker is kept from writing; Refusal if it must be and cannot."""
        if not self._sandboxed:
            return
        told = self._must_be(messages.Sandboxed, self._receive(timeout, "starting up"), "starting up")
        self.protection = told.kind
        self._contained = told.contained
        self.uppers = told.uppers
        self._denied = told.reason if told.kind == "landlock" else ""
        if told.kind == "off" and self._must_be_sandboxed:
            raise Refusal(
                f"trials cannot be kept from writing files here: {told.reason}. "
                "Run again with --allow-writes if the script may write while it is measured."
            )

    def _hear_out(self) -> None:
        """Read the last output, too; another process may hold the pipe open for ever."""
        if self._tee is not None:
            self._tee.join(_LAST_WORDS_SECONDS)

    def _ask(self, request: messages.Request[Heard], doing: str, timeout: float = SILENCE_SECONDS) -> Heard:
        self._send(request, doing)
        return self._must_be(request.answer(), self._receive(timeout, doing), doing)

    def _must_be(self, kind: type[Heard], message: messages.Message, while_doing: str) -> Heard:
        if isinstance(message, kind):
            return message
        raise self._not_understood(type(message).__name__, while_doing)

    def _send(self, request: messages.Message, while_doing: str) -> None:
        try:
            self._wire.send(request)
        except Hangup:  # it has ended since its last answer
            raise self._ending(while_doing) from None

    def _receive(self, timeout: float | None, while_doing: str) -> messages.Message:
        when = self._when(while_doing)
        try:
            message = self._wire.receive(self.limit.within(timeout))
        except TimeoutError:
            self.limit.check(when)
            raise Silence(f"{self.who} was silent for {timeout:.0f} s {when}: it seems to hang") from None
        except Hangup:
            raise self._ending(while_doing) from None
        except messages.UnknownMessage as error:
            raise self._not_understood(str(error), while_doing) from None
        if isinstance(message, (messages.StepsDone, messages.Ended)):
            self._imported(message.sources)
        if isinstance(message, messages.WatchingFailed):
            raise WorkerError(f"{WATCHING_FAILED if message.bug else ''}{message.detail.rstrip()}")
        if isinstance(message, messages.Ended):
            raise ScriptOver(self._ended(message))
        return message

    def _not_understood(self, what: str, while_doing: str) -> WorkerError:
        return WorkerError(f"{self.who} sent what hasten does not expect {self._when(while_doing)}: {what}")

    def _ended(self, message: messages.Ended) -> ScriptEnded:
        return ScriptEnded(
            how=message.how,
            detail=message.detail,
            steps=message.steps,
            trace=message.trace,
            steps_in_all=len(self.history) + len(message.steps),
            observation=message.observation,
            denied=self._denied,
            stands_in=self._stands_in,
            summary=message.summary,
            rest=rest_of(message, self._process, self.limit),
            plan=self.plan,
            proofs=message.proofs,
        )

    def _take(self, steps: Sequence[Step]) -> list[Step]:
        self.history += steps
        return list(steps)

    def _expected(self, count: int) -> float:
        """A generous estimate for ``count`` steps: twenty times the slowest so far."""
        return 20 * count * max((step.seconds for step in self.history), default=1.0)

    def _ending(self, doing: str) -> WorkerError:
        how = f"{self._how_it_ended()} {self._when(doing)}"
        code = self._process.poll()
        return Killed(how) if code is not None and code < 0 else WorkerError(how)

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f"{self.who} closed the connection to hasten"
        return f"{self.who} {how_it_ended(code)}"

    def _when(self, doing: str) -> str:
        return f"during {self.occasion}" if self.occasion else f"while {doing}"

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
