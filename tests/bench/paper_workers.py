"""Workers made of paper: they answer a bench as a real worker would, at once and by a table of speeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from hasten.bench.trials import Trials
from hasten.bench.workers.ending import PlanRefused, ScriptEnded, ScriptOver
from hasten.bench.workers.joint_starts import Starts
from hasten.bench.workers.limit import Limit
from hasten.bench.workers.stopwatch import Stopwatch
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from tests.bench.made_up import step

Disturb = Callable[["PaperWorker"], None]


@dataclass
class PaperTrials:
    """Starts paper workers and remembers them. ``speeds``: seconds a step of the n-th worker's baseline, the
    last for all later ones; ``effects``: factors by technique.
    """

    speeds: tuple[float, ...] = (0.01,)
    effects: Mapping[str, float] = field(default_factory=dict)
    length: int = 10**9  # steps of the script
    how: str = "completed"  # the script's end
    detail: str = ""
    rest: Step | None = None  # what came after the script's last step
    refused: Mapping[str, str] = field(default_factory=dict)  # technique: why it cannot be switched on
    effective: bool = True  # what proofs say
    idle: Sequence[str] = ()  # techniques of which they say otherwise
    paid: tuple[float, ...] = ()  # seconds by the n-th worker, for what lasts
    in_turn: Mapping[str, Sequence[float]] = field(default_factory=dict)  # times as long, by technique
    ends: tuple[int, float] | None = None  # steps of a pass, and times as long as usual in its last 5 steps
    evaluating: bool = False  # an evaluation falls into every second step
    asks_from: int = 10**9  # from this step on most ask the network four times
    models_at: frozenset[int] = frozenset()  # steps, from 1, in which a model is called for the first time
    on_steps: Disturb = lambda _: None
    on_start: Disturb = lambda _: None
    workers: list[PaperWorker] = field(default_factory=list)
    at_once: list[object] = field(default_factory=list)  # workers in memory along with each, as was asked for
    rehearsals: list[str] = field(default_factory=list)  # of several processes
    refuses_ranks: str = ""  # why a rehearsal in full does
    log: list[str] = field(default_factory=list)  # what all workers trained, in order
    limit: Limit = field(default_factory=Limit)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    starts: Starts = field(default_factory=Starts)

    def foreseen_rehearsal(self, plan: Plan, start_seconds: float) -> float:
        return 0.0

    def rehearse(self, plan: Plan, briefly: bool = False) -> None:
        if "processes" in plan.techniques:
            self.rehearsals.append("briefly" if briefly else "in full")
            if not briefly and self.refuses_ranks:
                raise PlanRefused("processes", self.refuses_ranks)

    def worker(self, plan: Plan = BASELINE, **asked: object) -> PaperWorker:
        self.at_once.append(asked.get("at_once", 1))
        speed = self.speeds[min(len(self.workers), len(self.speeds) - 1)]
        self.workers.append(PaperWorker(self, plan, speed))
        return self.workers[-1]

    def blocks(self, steps: int) -> list[str]:
        """The plans under which just so many steps were trained at once, in order."""
        return [entry.removesuffix(f" x {steps}") for entry in self.log if entry.endswith(f" x {steps}")]

    def as_trials(self) -> Trials:
        """A bench asks nothing of them but workers."""
        return cast(Trials, self)


@dataclass
class PaperWorker:
    trials: PaperTrials
    plan: Plan
    speed: float
    taken: int = 0
    setup_seconds: float = 0.0
    spared_seconds: float = 0.0
    start_seconds: float = 3.0
    own_seconds: float = 0.0
    losses: tuple[float, ...] = (1.0,)
    running: bool = True
    stopped: bool = False
    counts_anew: bool = False  # a model appeared in the latest steps: effects were counted from there on
    log: list[str] = field(default_factory=list)
    history: list[Step] = field(default_factory=list)

    def wait_started(self, timeout: float = 0.0) -> None:
        self.trials.on_start(self)
        self._take(1)

    def steps(self, count: int, timeout: float | None = None) -> list[Step]:
        assert self.running, "a stopped process was asked to train"
        self.trials.on_steps(self)
        self.log.append(f"{self.plan.label} x {count}")
        self.trials.log.append(self.log[-1])
        return self._take(count)

    def switch(self, plan: Plan) -> str:
        for name in plan.techniques:
            if name in self.trials.refused and name not in self.plan.techniques:
                self.plan = BASELINE
                return f"{name}: {self.trials.refused[name]}"
        if plan != self.plan:
            self.setup_seconds = 1.5 * len(plan.techniques)
        self.plan = plan
        return ""

    def proofs(self) -> tuple[Proof, ...]:
        assert self.running, "a stopped process was asked for proofs"
        trials, number = self.trials, self.trials.workers.index(self)
        paid, lasting = sum(trials.paid[number : number + 1]), sum(trials.paid[: number + 1])
        if trials.paid and self.plan:
            self.setup_seconds = 1.0 + paid
        return tuple(
            Proof(
                name,
                trials.effective and name not in trials.idle and not self.counts_anew,
                "counted",
                lasting_seconds=lasting,
                paid_seconds=paid,
            )
            for name in self.plan.techniques
        )

    def pause(self) -> None:
        self.running = False
        self.log.append("paused")

    def resume(self) -> None:
        self.running = True
        assert sum(worker.running and not worker.stopped for worker in self.trials.workers) == 1, (
            "two processes run at once"
        )

    def stop(self) -> None:
        self.stopped = True

    def __enter__(self) -> PaperWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take(self, count: int) -> list[Step]:
        done = min(count, self.trials.length - self.taken)
        seconds = self.speed
        for name in self.plan.techniques:
            seconds *= self.trials.effects.get(name, 1.0)
        evaluations = [self._evaluations(self.taken + n) for n in range(done)]
        in_turn = next(
            (self.trials.in_turn[name] for name in self.plan.techniques if name in self.trials.in_turn),
            (1.0,),
        )
        times = [seconds * in_turn[(self.taken + n) % len(in_turn)] for n in range(done)]
        steps = [
            step(each, evaluations=count, losses=self.losses)
            for each, count in zip(times, evaluations, strict=True)
        ]
        new = self.trials.models_at
        steps = [replace(each, new_model=self.taken + n in new) for n, each in enumerate(steps, 1)]
        self.counts_anew = any(each.new_model for each in steps)
        if ends := self.trials.ends:
            steps = [
                replace(each, seconds=each.seconds * factor, last_batches=factor != 1.0)
                for n, each in enumerate(steps)
                for factor in (ends[1] if (self.taken + n) % ends[0] >= ends[0] - 5 else 1.0,)
            ]
        self.taken += done
        self.history += steps
        if done < count:
            raise ScriptOver(self._ended(steps))
        return steps

    def _evaluations(self, number: int) -> int:
        if number >= self.trials.asks_from:
            return 4 if number % 5 else 3
        return int(self.trials.evaluating and number % 2)

    def _ended(self, steps: Sequence[Step]) -> ScriptEnded:
        trials = self.trials
        return ScriptEnded(
            trials.how, trials.detail, tuple(steps), (), self.taken, rest=trials.rest, plan=self.plan
        )
