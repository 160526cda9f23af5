"""Several workers that train together and act as one: rank 0 answers, all follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar, cast

from ...errors import Refusal, WorkerError
from ...records.messages import (
    Message,
    RecordStep,
    Request,
    SaveState,
)
from ...records.observation import Observation, Step
from ...records.plan import BASELINE, Plan
from ...records.ranks import Findings
from ...records.trace import StepTrace, Trace
from ...records.trial import Proof
from .ending import Killed, PlanRefused, ScriptEnded, ScriptOver
from .process import WorkerProcess
from .process_start import START_SECONDS
from .worker import Heard

Answer = TypeVar("Answer")


class WorkerGroup:
    """Same interface as ``WorkerProcess``. All ranks take part in every request at the same time: each waits
    for the others within a step.
    """

    def __init__(self, ranks: Sequence[WorkerProcess], closing: ExitStack) -> None:
        """``closing`` is closed once all have ended."""
        self.ranks = list(ranks)
        for number, rank in enumerate(self.ranks):
            rank.who = f"rank {number}" if len(self.ranks) > 1 else rank.who
        self._closing = closing
        self._threads = ThreadPoolExecutor(len(self.ranks), thread_name_prefix="rank")

    # ---- rank 0's answers
    @property
    def plan(self) -> Plan:
        return self.ranks[0].plan

    @property
    def history(self) -> list[Step]:
        return self.ranks[0].history

    @property
    def setup_seconds(self) -> float:
        """The time of the rank that took longest."""
        return max(rank.setup_seconds for rank in self.ranks)

    @property
    def spared_seconds(self) -> float:
        """So much less than ``setup_seconds`` the rank took that took longest."""
        return self.setup_seconds - max(rank.setup_seconds - rank.spared_seconds for rank in self.ranks)

    @property
    def start_seconds(self) -> float:
        """The time of the rank that took longest."""
        return max(rank.start_seconds for rank in self.ranks)

    @property
    def own_seconds(self) -> float:
        """Of the rank that took longest."""
        return max(self.ranks, key=lambda rank: rank.start_seconds).own_seconds

    @property
    def protection(self) -> str:
        return self.ranks[0].protection

    @property
    def child(self) -> str:
        return self.ranks[0].child

    @property
    def uppers(self) -> Mapping[str, str]:
        return self.ranks[0].uppers

    # ---- conversation
    def wait_started(self, timeout: float = START_SECONDS) -> None:
        self._all(lambda rank: rank.wait_started(timeout))

    def steps(self, count: int, timeout: float | None = None) -> list[Step]:
        return self._all(lambda rank: rank.steps(count, timeout))

    def switch(self, plan: Plan) -> str:
        """Why not, from the first rank that cannot; then it is in force in none."""
        reason = next(filter(None, self._of_all(lambda rank: rank.switch(plan))), "")
        if reason:
            self._of_all(lambda rank: rank.switch(BASELINE))
        return reason

    def observation(self) -> Observation:
        return self._all(lambda rank: rank.observation())

    def proofs(self) -> tuple[Proof, ...]:
        return self._all(lambda rank: rank.proofs())

    def trace(self) -> tuple[StepTrace, ...]:
        return together(self._of_all(lambda rank: rank.trace()))

    def numerics(self, request: Request[Heard]) -> Heard:
        """Ask all ranks. All load the state that one has written; each writes into a file of its own."""

        def ask(rank: WorkerProcess) -> Heard:
            own: Message = request
            number = self.ranks.index(rank)
            if number and isinstance(own, SaveState):
                own = replace(own, state=f"{own.state}-{number}")
            elif number and isinstance(own, RecordStep):
                own = replace(own, made=f"{own.made}-{number}")
            return rank.numerics(cast("Request[Heard]", own))

        return self._all(ask)

    def rehearsed(self) -> list[Findings]:
        """What each rank found."""
        return self._of_all(lambda rank: rank.rehearsed())

    def finish(self, timeout: float | None) -> tuple[ScriptEnded, str]:
        return self._all(lambda rank: rank.finish(timeout))

    def pause(self) -> None:
        for rank in self.ranks:
            rank.pause()

    def resume(self) -> None:
        for rank in self.ranks:
            rank.resume()

    def stop(self) -> None:
        for rank in self.ranks:
            rank.stop()
        self._threads.shutdown()
        self._closing.close()

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- inside
    def _all(self, ask: Callable[[WorkerProcess], Answer]) -> Answer:
        return self._of_all(ask)[0]

    def _of_all(self, ask: Callable[[WorkerProcess], Answer]) -> list[Answer]:
        """Rank by rank. If several fail, raises the failure that explains the others; the remaining ones
        would wait for a rank that is gone, so they are ended.
        """
        asked: list[Future[Answer]] = [self._threads.submit(ask, rank) for rank in self.ranks]
        failures: list[BaseException] = []
        answers: list[Answer] = []
        for future in asked:
            try:
                answers.append(future.result())
            except (ScriptOver, PlanRefused, Refusal, WorkerError) as error:
                failures.append(error)
        if failures:
            worst = min(failures, key=_rank_of_failure)
            overs = [error for error in failures if isinstance(error, ScriptOver)]
            if isinstance(worst, ScriptOver) and len(overs) == len(self.ranks):
                trace = together([over.ended.trace for over in overs])
                raise ScriptOver(replace(worst.ended, trace=trace))
            raise worst
        return answers


def _rank_of_failure(error: BaseException) -> int:
    """The rank to blame: one that was killed explains what the others report; otherwise a rank's own report
    explains more than that it is gone.
    """
    if isinstance(error, Killed):
        return -1
    if isinstance(error, ScriptOver):
        return 0 if error.ended.how != "completed" else 2
    return 1 if isinstance(error, (PlanRefused, Refusal)) else 3


def together(ranks: Sequence[Trace]) -> tuple[StepTrace, ...]:
    """The traces of all ranks as one: rank 0's, with the samples of all ranks' slices in each batch.

    ``batches`` is None: no rank has seen more of a batch than its slice, so samples are compared.
    """
    merged = []
    for steps in zip(*ranks, strict=False):
        samples = []
        for parts in zip(*(step.samples for step in steps), strict=False):
            first = parts[0].digests
            digests = first
            for part in parts[1:]:
                mine = part.digests
                if mine != first[: len(mine)]:  # a rank with nothing left repeats the first samples
                    digests += mine
            samples.append(replace(parts[0], digests=digests))
        merged.append(replace(steps[0], samples=tuple(samples), batches=None))
    return tuple(merged)
