"""Paper workers that spend the time of a clock of their own: whole tunes can be timed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hasten.bench.stage import Stage
from hasten.bench.workers.ending import BudgetOver
from hasten.bench.workers.limit import Limit
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.scripts.sources import Sources
from tests.bench.made_up import machine
from tests.bench.paper_workers import PaperTrials, PaperWorker

_AFTER = 0.25  # of its start: what is left to a worker that waited for its turn


@dataclass
class ClockedTrials(PaperTrials):
    """``load(now)``: how many times as long everything takes at that moment. ``start_seconds`` of each
    worker, ``setups`` in seconds by technique.
    """

    now: float = 0.0
    load: Callable[[float], float] = lambda now: 1.0
    start_seconds: float = 3.0
    setups: Mapping[str, float] = field(default_factory=dict)
    protection: str = "overlay"
    written_outside: tuple[str, ...] = ()
    sources: Sources | None = None
    stage: Stage = field(default_factory=lambda: Stage(("train.py",), machine(), {}, ()))

    def __post_init__(self) -> None:
        self.limit = Limit(self.clock)

    def clock(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        """Raises BudgetOver, at the moment when the limit is over."""
        seconds *= self.load(self.now)
        left = self.limit.left
        if left is not None and left < seconds:
            self.now += max(0.0, left)
            raise BudgetOver("the budget ended")
        self.now += seconds

    def setup(self, plan: Plan) -> float:
        return sum(self.setups.get(name, 0.0) for name in plan.techniques)

    def worker(self, plan: Plan = BASELINE, **asked: object) -> PaperWorker:
        self.workers.append(ClockedWorker(self, plan, self.speeds[0], waits=bool(asked.get("turn"))))
        return self.workers[-1]

    def write_to(self, folder: Path) -> None:
        pass

    def __enter__(self) -> ClockedTrials:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class ClockedWorker(PaperWorker):
    waits: bool = False  # for its turn
    _set_up: set[str] = field(default_factory=set)  # once for all, in this process

    @property
    def _clocked(self) -> ClockedTrials:
        assert isinstance(self.trials, ClockedTrials)
        return self.trials

    def wait_started(self, timeout: float = 0.0) -> None:
        trials = self._clocked
        trials.spend((_AFTER if self.waits else 1.0) * trials.start_seconds)
        trials.spend(trials.setup(self.plan))
        self.setup_seconds = trials.setup(self.plan)
        self._set_up |= set(self.plan.techniques)
        super().wait_started(timeout)

    def switch(self, plan: Plan) -> str:
        found = super().switch(plan)
        new = plan.only(set(plan.techniques) - self._set_up)
        self._clocked.spend(self._clocked.setup(new))
        self._set_up |= set(plan.techniques)
        self.setup_seconds = self._clocked.setup(plan)
        return found

    def _take(self, count: int) -> list[Step]:
        steps = super()._take(count)
        self._clocked.spend(sum(step.seconds for step in steps))
        return steps
