"""The watch during a training, with a scripted clock and scripted readings."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence

import pytest
import torch

from hasten.inside.job import Job, OwnGroup, Ranks
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.run_watch.run_watch import RunWatch, watch_of
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.records.ranks import Findings
from hasten.records.run_facts import RunFacts
from hasten.records.run_pace import WatchedRun
from tests.bench.made_up import machine

from .made_up import facts

WATCHED = WatchedRun()
STEP = 0.02


class Course:
    """A run whose steps take what is asked for, on a machine that is read as asked for."""

    def __init__(self, readings: Sequence[RunFacts] = ()) -> None:
        self.read = 0
        self.training = Training(torch, Seams(), available_bytes=2**32)
        self.model = torch.nn.Linear(2, 2)
        self.training.add_root(self.model)
        self._readings: Iterator[RunFacts] = iter(readings)
        self.watch = RunWatch(WATCHED, self.training, os.getpid(), self._read)

    def _read(self, process: int) -> RunFacts:
        self.read += 1
        return next(self._readings, facts(float(self.read)))

    def goes(self, seconds: float, step: float = STEP) -> None:
        for _ in range(round(seconds / step)):
            self.watch.step_ended(RawStep(seconds=step, samples=64, elements=640, forwards=1, backwards=1))


@pytest.fixture
def course() -> Course:
    return Course()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_steady_steps_are_passed_over_in_silence(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    course.goes(600)
    assert lines(capsys) == []
    assert course.read == 2  # of the run's beginning


def test_averages_that_have_become_too_small_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.inside.run_watch.run_watch.extra_seconds", lambda torch: 0.01)
    course = Course()
    optimizer = torch.optim.SGD(course.model.parameters(), lr=0.1, momentum=0.9)
    course.training.add_optimizer(optimizer)
    course.goes(60)
    optimizer.state[course.model.weight]["momentum_buffer"] = torch.full((2, 2), 1e-40)
    course.goes(600, 2 * STEP)
    (line,) = lines(capsys)
    assert "4 averages of gradients have fallen below 1.2e-38" in line
    assert "--use denormals" in line


def test_slower_steps_are_told_once_with_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    course = Course([facts(0), facts(30, 30, 30), facts(60, 60, 60), facts(90, 120, 90)])
    course.goes(60)
    course.goes(600, 2 * STEP)
    course.goes(600, 9 * STEP)
    (line,) = lines(capsys)
    assert line == (
        "hasten: steps take 2.00 times as long as earlier in this run (20 ms then, 40 ms now): "
        "other programs take 1.0 of its 2 processors; "
        "what takes longer is the script's own code between the steps"
    )
    assert course.read == 4


def test_the_collector_is_followed_only_while_steps_are_slow(course: Course) -> None:
    before = len(gc.callbacks)
    course.goes(60)
    assert len(gc.callbacks) == before
    course.goes(40, 2 * STEP)
    assert len(gc.callbacks) == before + 1
    course.goes(60, 2 * STEP)
    assert len(gc.callbacks) == before


def test_a_failure_of_the_watch_ends_it_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    course = Course()

    def broken(process: int) -> RunFacts:
        raise ZeroDivisionError("a\nb")

    course.watch = RunWatch(WATCHED, course.training, os.getpid(), broken)
    course.goes(60)
    course.goes(600, 2 * STEP)
    assert lines(capsys) == ["hasten: stopped watching whether steps become slower: ZeroDivisionError: a\\nb"]


def test_another_model_is_another_training(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    course.goes(60)
    other = torch.nn.Linear(3, 3)
    course.training.add_root(other)
    course.goes(600, 2 * STEP)
    assert lines(capsys) == []


def test_steps_that_train_more_of_the_model_are_not_slower(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    course.model.weight.requires_grad_(False)
    course.goes(60)
    course.model.weight.requires_grad_(True)
    course.goes(600, 2 * STEP)
    assert lines(capsys) == []
    course.goes(600, 4 * STEP)
    assert len(lines(capsys)) == 1


def test_a_forked_child_does_not_speak(
    course: Course, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    course.goes(60)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    course.goes(600, 2 * STEP)
    assert lines(capsys) == []


def job(**changes: object) -> Job:
    return Job(("train.py",), machine(), **{"watched": WATCHED, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "rank", "watched"),
    [
        (job(), "3", True),
        (job(watched=None), "0", False),
        (job(ranks=Ranks(0, 2, 0, "file:///x", findings=Findings())), "0", True),
        (job(ranks=Ranks(1, 2, 1, "file:///x", findings=Findings())), "1", False),
        (job(own_group=OwnGroup()), "0", True),
        (job(own_group=OwnGroup()), "1", False),
    ],
    ids=["alone", "not asked for", "rank 0", "rank 1", "rank 0 of the script's", "rank 1 of the script's"],
)
def test_of_several_ranks_the_first_watches(
    course: Course, monkeypatch: pytest.MonkeyPatch, job: Job, rank: str, watched: bool
) -> None:
    monkeypatch.setenv("RANK", rank)
    assert (watch_of(job, course.training) is not None) is watched
