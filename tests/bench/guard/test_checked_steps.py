"""Workers are led through the same steps, the reference ahead, whoever comes to an end on the way."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from hasten.bench.guard.checked_steps import LEAST_STEPS, Watched, checked_steps, watch
from hasten.bench.workers.ending import ScriptEnded, ScriptOver
from hasten.bench.workers.limit import Limit
from hasten.bench.workers.process import WorkerProcess
from hasten.records import messages
from hasten.records.trace import StepTrace
from hasten.records.trial import Proof

STEPS = 30
CHECKED = [1, *checked_steps(STEPS)]


ANSWERS: dict[type[messages.Message], messages.Message] = {
    messages.SaveState: messages.Written(),
    messages.RecordStep: messages.Written(),
    messages.LoadState: messages.Departed({}, ()),
    messages.CompareStep: messages.Compared({"weight": [1.0, 1.0, 0.0]}, {}, {}),
}


@dataclass
class Paper:
    """A worker that stands at the end of its first step; ``log`` is shared by all of a test."""

    name: str
    log: list[str]
    length: int = 10**9
    failing: type[messages.Message] | None = None  # the request that fails
    taken: int = 1
    requests: list[messages.Message] = field(default_factory=list)
    awake: set[str] = field(default_factory=set)  # shared by workers that must know of each other
    now: list[float] = field(default_factory=lambda: [0.0])  # seconds: a step takes one

    def pause(self) -> None:
        self.awake.discard(self.name)

    def resume(self) -> None:
        self.awake.add(self.name)

    def steps(self, count: int) -> None:
        assert count > 0, "a worker that is asked for no steps never answers"
        assert self.awake == {self.name}, "another one runs at the same time"
        self.now[0] += count
        self.taken = min(self.length, self.taken + count)
        self.log.append(f"{self.name} at {self.taken}")
        if self.taken == self.length:
            raise ScriptOver(ScriptEnded("completed", "", (), self.trace()))

    def proofs(self) -> tuple[Proof, ...]:
        return (Proof(self.name, True, f"after {self.taken} steps"),)

    def trace(self) -> tuple[StepTrace, ...]:
        return tuple(StepTrace(optimizer=n % 2) for n in range(self.taken))

    def numerics(self, request: messages.StepRequest) -> messages.Message:
        self.log.append(f"{self.name} {type(request).__name__}")
        self.requests.append(request)
        if type(request) is self.failing:
            return messages.Failed("no room")
        return ANSWERS[type(request)]


def watched(folder: Path, *workers: Paper) -> tuple[Watched, list[Watched]]:
    first, *others = [cast(WorkerProcess, worker) for worker in workers]
    found = watch(first, others, STEPS, str(folder), Limit())
    assert os.listdir(folder) == []
    return found


def test_the_reference_is_ahead_at_every_checked_step(tmp_path: Path) -> None:
    log: list[str] = []
    _, (other,) = watched(tmp_path, Paper("a", log), Paper("b", log))
    assert [check.step for check in other.checks] == CHECKED == [1, 2, 10, 21, 30]
    assert log[:9] == [
        "a RecordStep", "b CompareStep",
        "a SaveState", "a at 2", "a RecordStep", "b LoadState", "b at 2", "b CompareStep",
        "a at 9",
    ]  # fmt: skip


def test_whoever_waits_is_stopped(tmp_path: Path) -> None:
    """A plan may have threads wait actively, which takes the processors from other processes."""
    awake = {"a", "b", "c"}
    watched(tmp_path, *(Paper(name, [], awake=awake) for name in "abc"))
    assert not awake


def test_what_the_reference_made_is_of_the_optimizer_that_stepped(tmp_path: Path) -> None:
    reference = Paper("a", [])
    watched(tmp_path, reference, Paper("b", []))
    records = [request for request in reference.requests if isinstance(request, messages.RecordStep)]
    assert [record.optimizer for record in records] == [(step - 1) % 2 for step in CHECKED]


@pytest.mark.parametrize("length", [2, 9, 10, 15, 30])
def test_a_script_that_ends_is_compared_until_then(tmp_path: Path, length: int) -> None:
    first, (other,) = watched(tmp_path, Paper("a", [], length), Paper("b", [], length))
    assert len(first.trace) == len(other.trace) == length
    assert [check.step for check in other.checks] == [step for step in CHECKED if step < length]


def test_proofs_are_of_the_last_step(tmp_path: Path) -> None:
    _, (other,) = watched(tmp_path, Paper("a", []), Paper("b", []))
    assert [proof.evidence for proof in other.proofs] == [f"after {STEPS} steps"]


def test_steps_before_are_told_apart_and_the_first_after_them_is_not_checked(tmp_path: Path) -> None:
    workers = [cast(WorkerProcess, Paper(name, [], taken=8)) for name in "ab"]
    first, (other,) = watch(workers[0], workers[1:], STEPS, str(tmp_path), Limit(), before=7)
    for one in (first, other):
        assert (len(one.before), len(one.trace)) == (7, STEPS)
    assert [check.step for check in other.checks] == CHECKED[1:]


def test_one_that_ends_sooner_does_not_keep_the_others(tmp_path: Path) -> None:
    _, (short, whole) = watched(tmp_path, Paper("a", []), Paper("b", [], 12), Paper("c", []))
    assert len(short.trace) == 12
    assert [check.step for check in short.checks] == [1, 2, 10]
    assert len(whole.trace) == STEPS
    assert [check.step for check in whole.checks] == CHECKED


@pytest.mark.parametrize("request_", [messages.RecordStep, messages.SaveState])
def test_a_reference_that_fails_is_watched_to_the_end_all_the_same(
    tmp_path: Path, request_: type[messages.Message]
) -> None:
    first, (other,) = watched(tmp_path, Paper("a", [], failing=request_), Paper("b", []))
    assert first.failed == "no room"
    assert len(first.trace) == len(other.trace) == STEPS


@pytest.mark.parametrize("request_", [messages.LoadState, messages.CompareStep])
def test_one_that_fails_is_asked_no_more(tmp_path: Path, request_: type[messages.Message]) -> None:
    worker = Paper("b", [], failing=request_)
    _, (other,) = watched(tmp_path, Paper("a", []), worker)
    assert other.failed == "no room"
    assert type(worker.requests[-1]) is request_
    assert len(other.trace) == STEPS


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        (1000, STEPS),
        (60, 21),  # 42 have gone for 21 steps of both, and nine more would take 18, slower 23
        (66, STEPS),
        (30, 21),  # fewer than so many say nothing: then what is under way is stopped
    ],
)
def test_where_time_runs_out_the_steps_taken_count(tmp_path: Path, seconds: float, steps: int) -> None:
    assert LEAST_STEPS <= 21
    now, log = [0.0], list[str]()
    first, second = (cast(WorkerProcess, Paper(name, log, now=now)) for name in "ab")
    limit = Limit(lambda: now[0])
    with limit.ending(seconds):
        reference, (other,) = watch(first, [second], STEPS, str(tmp_path), limit)
    assert len(reference.trace) == len(other.trace) == steps
    assert [check.step for check in other.checks] == [step for step in CHECKED if step <= steps]
