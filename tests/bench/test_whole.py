"""What becomes of a worker's end: a run with its courses, or the reason why there is none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hasten.bench.trials import Trials
from hasten.bench.whole import train_whole
from hasten.bench.workers.ending import ScriptEnded
from hasten.errors import Refusal, UsageError, WorkerError
from hasten.records.plan import BASELINE, Plan
from hasten.records.quality import MetricValue, RunSummary, WholeRun

Heard = Callable[[bytes], None]


@dataclass
class PaperTrials:
    """One whole training on paper: it takes two steps, then prints ``lines``, then a third step."""

    lines: tuple[bytes, ...] = ()
    metrics: tuple[tuple[str, float], ...] = ()
    losses: tuple[float, ...] = (0.5,)
    steps: int = 3
    failure: str = ""
    error: Exception | None = None
    asked: dict[str, Any] = field(default_factory=dict)

    def rehearse(self, plan: Plan) -> None:
        pass

    def worker(self, plan: Plan, *, heard: Heard, **asked: Any) -> PaperTrials:
        self.asked = {"plan": plan, **asked}
        self.heard = heard
        return self

    def finish(self, timeout: float | None) -> tuple[ScriptEnded, str]:
        if self.error is not None:
            raise self.error
        ends = [time.monotonic() for _ in range(self.steps - 1)]
        for line in self.lines:
            self.heard(line)
        ends += [time.monotonic()] * min(1, self.steps)
        summary = RunSummary(
            step_ends=tuple(ends[: self.steps]),
            metrics=tuple(MetricValue(name, value, time.monotonic(), 3) for name, value in self.metrics),
            losses=self.losses,
            remarks=("bf16 is left out",),
        )
        return ScriptEnded("completed", "", (), (), summary=summary), self.failure

    def __enter__(self) -> PaperTrials:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def trained(self, pattern: str | None = None, plan: Plan = BASELINE) -> WholeRun:
        compiled = re.compile(pattern) if pattern else None
        return train_whole(cast(Trials, self), plan, 5, compiled, "accuracy")


def test_what_the_script_told() -> None:
    run = PaperTrials(metrics=(("accuracy", 0.1), ("loss", 2.0), ("accuracy", 0.5))).trained()
    assert {name: [point.value for point in course] for name, course in run.courses.items()} == {
        "accuracy": [0.1, 0.5],
        "loss": [2.0],
    }
    assert (run.arm, run.seed, run.steps, run.losses, run.failure) == ("baseline", 5, 3, (0.5,), "")
    assert run.remarks == ("bf16 is left out",)
    assert all(0 <= point.seconds <= run.seconds for point in run.courses["accuracy"])


def test_what_it_printed() -> None:
    lines = (b"accuracy 0.25, then accuracy 87.5%", b"nothing", b" ")
    run = PaperTrials(lines).trained(r"accuracy (\S+)")
    assert [(point.value, point.step) for point in run.courses["accuracy"]] == [(0.25, 2), (87.5, 2)]
    assert run.last_line == "nothing"


def test_a_pattern_goes_before_what_is_told() -> None:
    run = PaperTrials((b"accuracy 0.7",), metrics=(("accuracy", 0.1),)).trained(r"accuracy (\S+)")
    assert [point.value for point in run.courses["accuracy"]] == [0.7]


def test_what_is_no_number() -> None:
    with pytest.raises(UsageError, match="caught 'good', which is not a number"):
        PaperTrials((b"accuracy good",)).trained(r"accuracy (\S+)")


def test_the_worker_is_asked_for_a_whole_training() -> None:
    trials, plan = PaperTrials(), Plan({"bf16": {}})
    assert trials.trained(plan=plan).arm == "plan"
    assert trials.asked == {"plan": plan, "seed": 5, "whole": True, "argv": None}


@pytest.mark.parametrize(
    ("trials", "failure"),
    [
        (PaperTrials(failure="the script ended with exit code 3"), "the script ended with exit code 3"),
        (PaperTrials(error=WorkerError("killed by SIGSEGV")), "killed by SIGSEGV"),
        (PaperTrials(losses=(0.5, float("nan"))), "the loss at the end is not a number"),
        (PaperTrials(steps=0, losses=()), "no training step was seen"),
    ],
)
def test_failures(trials: PaperTrials, failure: str) -> None:
    assert trials.trained().failure == failure


def test_where_nothing_can_be_protected_it_ends() -> None:
    with pytest.raises(Refusal):
        PaperTrials(error=Refusal("no overlay")).trained()
