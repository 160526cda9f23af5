"""A worker process seen from the coordinator: start it, converse with it, stop it. It never outlives us."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import Refusal, WorkerError
from ..inside.job import Job
from ..inside.orphans import end_all_below
from ..inside.wire import Hangup, Message, Wire
from ..launch.local import render
from ..launch.words import how_it_ended
from ..records.codec import from_json
from ..records.observation import Observation, Step
from ..records.plan import BASELINE, Plan
from ..records.ranks import Findings
from ..records.trial import Proof
from .ending import LOST_SIGHT, Killed, PlanRefused, ScriptEnded, ScriptOver, Silence, trains_elsewhere
from .limit import Limit
from .listening import Tap
from .output import Output, keep_ends
from .starting import start_process
from .worker import Worker

START_SECONDS = 600.0  # a script may prepare for long before its first step
CHILD_SECONDS = 90.0  # without a step, once the script has started processes that may be training instead
SILENCE_SECONDS = 120.0  # a step may be slow, but not without end
_LAST_WORDS_SECONDS = 5.0

Imported = Callable[[Sequence[str]], None]


class WorkerProcess:
    """One worker. After ``start`` it stands at the end of its first step and waits."""

    def __init__(
        self,
        job: Job,
        environment: Mapping[str, str],
        output: Output,
        inherits: Sequence[int] = (),
        imported: Imported = lambda paths: None,
    ) -> None:
        """``inherits``: descriptors that stay open in it. ``imported`` is told the files of the modules that
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
        """Take up the conversation with the worker for ``job`` that ``process`` is, or started."""
        self.plan = job.plan
        self.history: list[Step] = []
        self.setup_seconds = 0.0
        self.protection = ""
        self.child = ""  # the first process that the script started itself before its first step
        self.uppers: Mapping[str, str] = {}  # where its writes go, by place
        self._denied = ""  # as in ScriptEnded
        self._stands_in = output.stands_in
        self._imported = imported
        self.limit = Limit()  # its stage's, where it has one: when it is over, waiting ends with BudgetOver
        self._contained = False  # the kernel ends with it all that it started
        self._wire = Wire(ours)
        self._process = process
        self._tap: Tap | None = None
        if output.heard is not None and process.stdout is not None:
            self._tap = Tap(process.stdout, output.stdout, output.heard)
        self._files = [path for path in (output.stdout, output.stderr) if path is not None]
        self.who = "the script"  # whom messages blame
        self.occasion = ""  # "the rehearsal", where that says more than what it was asked for
        self._shielded = job.shield is not None
        self._must_be_shielded = job.shield is not None and job.shield.required

    # ---- conversation
    def wait_started(self, timeout: float = START_SECONDS) -> None:
        """Return once the first step is done.

        Raises ScriptOver, PlanRefused, Refusal (no protection) or WorkerError.
        """
        self._wait_shielded(timeout)
        message = self._receive(timeout, "reaching its first training step")
        if message["event"] == "child":
            self.child = message["name"]
            try:
                message = self._receive(min(timeout, CHILD_SECONDS), "reaching its first training step")
            except Silence:
                raise Refusal(trains_elsewhere(self.child)) from None
        if message["event"] == "refused":
            raise PlanRefused(message["technique"], message["reason"])
        self._take_steps(message)

    def steps(self, count: int, timeout: float | None = None) -> list[Step]:
        """Let the script train ``count`` steps and return them. Raises ScriptOver where it ends before."""
        doing = f"training {count} steps{f' under {self.plan.label}' if self.plan else ''}"
        self._send({"do": "steps", "count": count}, doing)
        return self._take_steps(self._receive(timeout or SILENCE_SECONDS + self._expected(count), doing))

    def switch(self, plan: Plan) -> str:
        """Put the live part of ``plan`` in force; returns why not where a technique cannot take effect,
        else "".
        """
        if plan == self.plan:
            return ""
        doing = f"{(plan or self.plan).label} was switched {'on' if plan else 'off'}"
        answer = self._ask({"do": "switch", "plan": plan.to_json()}, doing, START_SECONDS)
        if answer["event"] == "refused":
            self.plan = BASELINE
            return f"{answer['technique']}: {answer['reason']}"
        self.plan = plan
        self.setup_seconds = answer["setup_seconds"]
        return ""

    def observation(self) -> Observation:
        return from_json(Observation, self._ask({"do": "observation"}, "it was watched")["observation"])

    def proofs(self) -> tuple[Proof, ...]:
        """Whether the techniques in force took effect. Brings ``setup_seconds`` up to date, too."""
        answer = self._ask(
            {"do": "proofs"}, f"{self.plan.label} was tried" if self.plan else "it was watched"
        )
        self.setup_seconds = answer["setup_seconds"]
        return tuple(from_json(Proof, proof) for proof in answer["proofs"])

    def testimony(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self._ask({"do": "testimony"}, "its training was compared")["steps"]
        return steps

    def finish(self, timeout: float | None) -> tuple[ScriptEnded, str]:
        """Wait for the end of a whole training: how its script ended, and why that is a failure, or "".

        ``timeout`` in seconds; None waits for ever. Raises Refusal (no protection) or WorkerError.
        """
        doing = "training to its end"
        try:
            self._wait_shielded(START_SECONDS)
            self._receive(timeout, doing)
        except ScriptOver as over:
            try:
                code = self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise Silence("the script came to its end, but its process did not") from None
            self._hear_out()
            if over.ended.how != "completed":
                return over.ended, str(over)
            return over.ended, self._how_it_ended() if code else ""
        raise WorkerError(f"the script said something else than its end while {doing}")

    def rehearsed(self) -> Findings:
        """What a rehearsal of ranks found in this one."""
        return from_json(
            Findings, self._ask({"do": "rehearsed"}, "it was rehearsed", START_SECONDS)["findings"]
        )

    def numerics(self, what: str, **more: Any) -> dict[str, Any]:
        """Ask what ``inside.numerics`` answers."""
        return self._ask({"do": "numerics", "what": what, **more}, "single steps were compared")

    def pause(self) -> None:
        """Stop all its processes, so that another worker can be timed."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it and everything it started, at once."""
        if not self._contained and self._process.poll() is None:
            end_all_below(self._process.pid)
        self._signal(signal.SIGKILL)
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
    def _wait_shielded(self, timeout: float) -> None:
        """Take in how the worker is kept from writing; Refusal where it cannot be and must."""
        if not self._shielded:
            return
        told = self._receive(timeout, "starting up")
        self.protection = told["kind"]
        self._contained = told["contained"]
        self.uppers = dict(told["uppers"])
        self._denied = told["reason"] if told["kind"] == "landlock" else ""
        if told["kind"] == "off" and self._must_be_shielded:
            raise Refusal(
                f"trials cannot be kept from writing files here: {told['reason']}. "
                "Run again with --allow-writes if the script may write while it is measured."
            )

    def _hear_out(self) -> None:
        """What was printed last is heard, too; somebody else may hold the pipe open for ever."""
        if self._tap is not None:
            self._tap.join(_LAST_WORDS_SECONDS)

    def _ask(self, request: Message, doing: str, timeout: float = SILENCE_SECONDS) -> Message:
        self._send(request, doing)
        return self._receive(timeout, doing)

    def _send(self, request: Message, while_doing: str) -> None:
        try:
            self._wire.send(request)
        except Hangup:  # it ended since its last answer
            raise self._ending(while_doing) from None

    def _receive(self, timeout: float | None, while_doing: str) -> Message:
        try:
            message = self._wire.receive(self.limit.within(timeout))
        except TimeoutError:
            self.limit.check(self._when(while_doing))
            raise Silence(
                f"{self.who} was silent for {timeout:.0f} s {self._when(while_doing)}: it seems to hang"
            ) from None
        except Hangup:
            raise self._ending(while_doing) from None
        self._imported(message.get("sources", ()))
        if message["event"] == "lost sight":
            raise WorkerError(LOST_SIGHT + message["detail"].rstrip())
        if message["event"] == "ended":
            raise ScriptOver(self._ended(message))
        return message

    def _ended(self, message: Message) -> ScriptEnded:
        seen = message["observation"]
        return ScriptEnded(
            how=message["how"],
            detail=message["detail"],
            steps=(steps := _steps(message["steps"])),
            testimony=message["testimony"],
            steps_in_all=len(self.history) + len(steps),
            observation=from_json(Observation, seen) if seen is not None else None,
            denied=self._denied,
            stands_in=self._stands_in,
            account=message["account"] or {},
        )

    def _take_steps(self, message: Message) -> list[Step]:
        steps = list(_steps(message["steps"]))
        self.history += steps
        return steps

    def _expected(self, count: int) -> float:
        """A generous guess at what ``count`` steps take: twenty times the slowest so far."""
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

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def wait_all_started(workers: Sequence[Worker]) -> None:
    """Several workers may prepare at the same time: only their steps are timed."""
    deadline = time.monotonic() + START_SECONDS
    for worker in workers:
        worker.wait_started(max(1.0, deadline - time.monotonic()))


def _steps(items: list[Any]) -> tuple[Step, ...]:
    return tuple(from_json(Step, item) for item in items)
