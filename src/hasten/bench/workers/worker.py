"""What a bench needs from a worker, whether one process or several that train together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, TypeVar

from ...records.messages import Message, Request
from ...records.observation import Observation, Step
from ...records.plan import Plan
from ...records.trace import StepTrace
from ...records.trial import Proof
from .ending import ScriptEnded

W = TypeVar("W")
Heard = TypeVar("Heard", bound=Message)


class Worker(Protocol):
    """``process.WorkerProcess`` says what each of these does.

    Every request raises ScriptOver if its script has ended, and WorkerError if the process is
    gone or does not answer.
    """

    @property
    def plan(self) -> Plan:
        """The plan in force."""

    @property
    def history(self) -> Sequence[Step]:
        """All steps so far, the first one included."""

    @property
    def setup_seconds(self) -> float:
        """Set-up time of the techniques in force in a run, as last reported."""

    @property
    def spared_seconds(self) -> float:
        """The part of it that this process did not take; below 0 if it took longer."""

    @property
    def start_seconds(self) -> float:
        """Seconds from its start to its first step's end, without set-up; 0 until proofs were requested."""

    @property
    def own_seconds(self) -> float:
        """Of these, what hasten's own modules took before the script began."""

    @property
    def protection(self) -> str:
        """How it is kept from writing; "" until it has started, and if it is not."""

    @property
    def child(self) -> str:
        """The first process that the script started itself before its first step; "" for none."""

    @property
    def uppers(self) -> Mapping[str, str]:
        """The folders that take what it writes, by the folders it writes to."""

    def wait_started(self, timeout: float = ...) -> None: ...

    def steps(self, count: int, timeout: float | None = None) -> list[Step]: ...

    def switch(self, plan: Plan) -> str: ...

    def observation(self) -> Observation: ...

    def proofs(self) -> tuple[Proof, ...]: ...

    def trace(self) -> tuple[StepTrace, ...]: ...

    def numerics(self, request: Request[Heard]) -> Heard: ...

    def finish(self, timeout: float | None) -> tuple[ScriptEnded, str]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def __enter__(self: W) -> W: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
