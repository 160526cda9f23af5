"""What a bench asks of a worker, be it one process or several that train together."""

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
    """``process.WorkerProcess`` says what each of these does."""

    @property
    def plan(self) -> Plan: ...

    @property
    def history(self) -> Sequence[Step]: ...

    @property
    def setup_seconds(self) -> float: ...

    @property
    def protection(self) -> str: ...

    @property
    def child(self) -> str: ...

    @property
    def uppers(self) -> Mapping[str, str]: ...

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
