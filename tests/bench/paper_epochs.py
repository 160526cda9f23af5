"""Paper workers whose script has epochs: something comes between two of them, and a plan may make it shorter,
longer, or leave some of it to the steps that follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hasten.bench.workers.ending import ScriptOver
from hasten.bench.workers.limit import Limit
from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.observation import Loader, Observation, Step
from hasten.records.plan import BASELINE, Plan
from tests.bench.made_up import observation, step, technique
from tests.bench.paper_workers import PaperTrials, PaperWorker

START_SECONDS = 3.0
QUICK = Plan({"quick_eval": {}})
WRITES_LATER = Plan({"late_saves": {}})


@dataclass
class PaperRun(PaperTrials):
    """An epoch has ``epoch`` steps; into the first of every one but the first falls what takes ``between``
    seconds: an evaluation where ``evaluated``, and the new epoch. ``shorter``: factors on it by technique;
    ``later``: seconds that a technique has the steps after it take more, in all.

    Its clock goes on by what steps and starts take.
    """

    epoch: int = 20
    between: float = 1.0
    evaluated: bool = True
    saved: bool = True
    every: int = 1  # epochs from one such to the next
    also_after: int = 0  # steps of an epoch, where the same falls into its middle, too
    shorter: Mapping[str, float] = field(default_factory=dict)
    later: Mapping[str, float] = field(default_factory=dict)
    skips: str = ""  # a technique that leaves out evaluations
    loaders: tuple[Loader, ...] = ()
    stage: Any = field(default_factory=lambda: SimpleNamespace(own_ranks=None))
    now: float = 0.0

    def __post_init__(self) -> None:
        self.limit = Limit(lambda: self.now)

    def worker(self, plan: Plan = BASELINE, **more: object) -> PaperWorker:
        speed = self.speeds[min(len(self.workers), len(self.speeds) - 1)]
        self.workers.append(EpochWorker(self, plan, speed, run=self, share=_share(more)))
        return self.workers[-1]


def _share(more: Mapping[str, Any]) -> float:
    return float(more.get("share_of_epochs", 1.0))


@dataclass
class EpochWorker(PaperWorker):
    run: PaperRun = field(default_factory=PaperRun)
    share: float = 1.0  # of each epoch
    owed: float = 0.0  # seconds that steps to come take more
    paying: int = 0  # steps

    def wait_started(self, timeout: float = 0.0) -> None:
        self.run.now += START_SECONDS
        super().wait_started(timeout)

    def _take(self, count: int) -> list[Step]:
        done = min(count, self.run.length - self.taken)
        steps = [self._step() for _ in range(done)]
        self.run.now += sum(one.seconds for one in steps)
        if done < count:
            raise ScriptOver(self._ended(steps))
        self.history += steps
        return steps

    def observation(self) -> Observation:
        return replace(observation(), loaders=self.run.loaders)

    def _step(self) -> Step:
        run, names = self.run, self.plan.techniques
        self.taken += 1
        seconds = self.speed * math.prod(run.effects.get(name, 1.0) for name in names)
        if self.paying:
            seconds += self.owed
            self.paying -= 1
        epoch = round(self.share * run.epoch)
        begins = self.taken > 1 and (self.taken - 1) % (epoch * run.every) == 0
        within = run.also_after and (self.taken - 1) % run.epoch == run.also_after
        if not (begins or within):
            return step(seconds, restarts=int(self.taken == 1))
        seconds += (
            self.share * run.between * self.speed / 0.01 * math.prod(run.shorter.get(n, 1.0) for n in names)
        )
        later = sum(run.later.get(name, 0.0) for name in names)
        self.paying = max(1, run.epoch // 2)
        self.owed = later / self.paying
        return step(
            seconds,
            saves=int(run.saved),
            restarts=1,
            evaluations=int(run.evaluated and run.skips not in names),
        )


def outside(name: str, *parts: str, scope: str = "live") -> type[Technique]:
    made = technique(name)
    made.parts, made.scope, made.risk = parts, scope, "exact"  # type: ignore[assignment]
    return made


@contextmanager
def known() -> Iterator[None]:
    """Two techniques more in the catalogue."""
    more = {"quick_eval": outside("quick_eval", "evaluation"), "late_saves": outside("late_saves", "saving")}
    with mock.patch.dict(CATALOG, more):
        yield
