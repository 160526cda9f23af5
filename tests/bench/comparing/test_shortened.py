"""Evaluations compared in epochs that are cut short, over paper workers whose epochs take minutes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hasten.bench.comparing.epoch_ends import TURN, EpochEnds
from hasten.bench.comparing.shortened import ShortenedBench, batches_of
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.script_bench import ScriptBench
from hasten.records.observation import Loader
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Seen, Unseen
from tests.bench.made_up import loader
from tests.bench.paper_epochs import QUICK, START_SECONDS, WRITES_LATER, PaperRun, known
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

EPOCH, BETWEEN = 15_000, 100.0  # steps of 0.01 s, and seconds of the evaluation after them
RHYTHM = Rhythm(0, 0, 1, 0.01, epoch_steps=EPOCH)
LOOK = 20.0  # seconds that there are to look for an evaluation


@pytest.fixture(autouse=True)
def techniques() -> Iterator[None]:
    with known():
        yield


def of(batches: int, training: bool = False) -> Loader:
    return loader(samples=8 * batches, batch_size=8, training=training)


def minutes(*evaluated: int, **more: object) -> PaperRun:
    """A run of long epochs with evaluations of so many batches."""
    loaders = (of(EPOCH, training=True), *map(of, evaluated or (10_000,)))
    return PaperRun(epoch=EPOCH, between=BETWEEN, loaders=loaders, **more)  # type: ignore[arg-type]


def bench_over(run: PaperRun, rhythm: Rhythm = RHYTHM) -> ScriptBench:
    return ScriptBench(run.as_trials(), rhythm, START_SECONDS)


def test_an_evaluation_after_minutes_is_seen_and_compared_as_in_whole_epochs() -> None:
    bench = bench_over(minutes(shorter={"quick_eval": 0.25}))
    seen = bench.seek(BASELINE, QUICK, LOOK)
    assert isinstance(seen, Seen)
    assert seen.share == pytest.approx(BETWEEN / (EPOCH * 0.01 + BETWEEN), rel=0.01)
    trial = bench.compare(BASELINE, QUICK, 60.0)
    whole = (EPOCH * 0.01 + BETWEEN / 4) / (EPOCH * 0.01 + BETWEEN)
    assert trial.log_ratios == pytest.approx([math.log(whole)] * len(trial.log_ratios), rel=0.02)
    assert trial.step_log_ratios == pytest.approx([0.0] * len(trial.log_ratios))
    assert (trial.method, trial.parts) == ("stretches", ("evaluation",))
    assert trial.shortened == pytest.approx(0.01)


def test_it_takes_seconds() -> None:
    run = minutes()
    bench = bench_over(run)
    bench.seek(BASELINE, QUICK, LOOK)
    assert run.now < LOOK
    pair = bench.stretches.seconds_of_pair(BASELINE, QUICK, early=True)
    assert pair is None or pair > EPOCH * 0.01
    assert bench.foreseen(BASELINE, QUICK) < 3 * LOOK


def test_where_whole_epochs_are_short_they_are_compared() -> None:
    run = PaperRun(epoch=200, between=1.0, loaders=(of(200, training=True), of(100)))
    bench = bench_over(run, Rhythm(0, 0, 1, 0.01, epoch_steps=200))
    assert isinstance(bench.seek(BASELINE, QUICK, 100.0), Seen)
    assert bench.compare(BASELINE, QUICK, 60.0).shortened == 1.0


@pytest.mark.attack("truth")
def test_saves_are_not_compared_in_short_epochs() -> None:
    """They occur once an epoch, however long it is: their gain would look larger."""
    bench = bench_over(minutes())
    bench.seek(BASELINE, QUICK, LOOK)
    assert isinstance(bench.seek(BASELINE, WRITES_LATER, LOOK), Unseen)
    both = Plan({**QUICK.techniques, **WRITES_LATER.techniques})
    assert isinstance(bench.seek(BASELINE, both, LOOK), Unseen)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("batches", [30, 149])
def test_an_evaluation_of_few_batches_has_no_larger_part_than_in_a_whole_epoch(batches: int) -> None:
    run = minutes(batches)
    bench = bench_over(run)
    assert isinstance(bench.seek(BASELINE, QUICK, LOOK), Seen)
    share = bench.shortened.share
    assert share * batches == pytest.approx(round(share * batches))


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "odd",
    [of(1), loader(samples=None), loader(batch_size=None), loader(samples=40_000, training=False, workers=2)],
)
def test_what_cannot_be_cut_as_the_rest_is_not_compared_so(odd: Loader) -> None:
    run = minutes()
    run.loaders = (*run.loaders, odd)
    bench = bench_over(run)
    assert isinstance(bench.seek(BASELINE, QUICK, LOOK), Unseen)
    assert bench.compare(BASELINE, QUICK, 60.0).failure


def test_where_even_a_short_epoch_takes_too_long_nothing_is_started() -> None:
    run = PaperRun(epoch=300, between=30.0, loaders=(of(300, training=True), of(100)))
    bench = bench_over(run, Rhythm(0, 0, 1, 0.6, epoch_steps=300))
    assert isinstance(bench.seek(BASELINE, QUICK, 5.0), Unseen)
    assert run.now == 0.0


@pytest.mark.parametrize(
    "rhythm", [replace(RHYTHM, epoch_steps=156_250_000), replace(RHYTHM, epoch_seen=True)]
)
def test_epochs_without_an_end_and_those_left_early_are_not_cut(rhythm: Rhythm) -> None:
    run = minutes()
    assert isinstance(bench_over(run, rhythm).seek(BASELINE, QUICK, LOOK), Unseen)
    assert run.now == 0.0


def test_where_an_evaluation_starts_processes_it_is_looked_for_once() -> None:
    run = minutes()
    run.loaders = (run.loaders[0], loader(samples=40_000, training=False, workers=2))
    bench = bench_over(run)
    assert isinstance(bench.seek(BASELINE, QUICK, LOOK), Unseen)
    spent = run.now
    assert spent < LOOK
    assert isinstance(bench.seek(BASELINE, QUICK, LOOK), Unseen)
    assert run.now == spent


def test_a_confirmation_is_of_short_epochs_too_also_where_an_earlier_tune_compared() -> None:
    first = bench_over(minutes(shorter={"quick_eval": 0.25}))
    first.seek(BASELINE, QUICK, LOOK)
    run = minutes(shorter={"quick_eval": 0.25})
    later = bench_over(run)
    later.learn(first.compare(BASELINE, QUICK, 60.0))
    trial = later._of_stretches(BASELINE, QUICK)
    assert trial is later.shortened


def test_several_ranks_are_not_cut() -> None:
    run = minutes(stage=SimpleNamespace(own_ranks=2))
    assert isinstance(bench_over(run).seek(BASELINE, QUICK, LOOK), Unseen)


def ends_told(run: PaperRun) -> EpochEnds:
    ends = EpochEnds(RHYTHM)
    bench = ShortenedBench(run.as_trials(), RHYTHM, None, ends)
    bench.early = False
    bench.seek(BASELINE, QUICK, 1e3)
    bench.compare(BASELINE, QUICK, 2)
    return ends


def test_what_ends_take_is_told_as_of_whole_epochs() -> None:
    ends = ends_told(minutes(shorter={"quick_eval": 0.25}, saved=False))
    told = {end.plan: end.seconds for end in ends.seen}
    assert told[BASELINE] == pytest.approx(BETWEEN, rel=0.01)
    assert told[QUICK] == pytest.approx(BETWEEN / 4, rel=0.01)
    assert ends.every(TURN) == pytest.approx(EPOCH, rel=0.01)
    assert ends.script_steps is None


@pytest.mark.attack("truth")
def test_ends_that_have_what_does_not_become_shorter_are_not_told() -> None:
    assert not ends_told(minutes(saved=True)).seen
    starting = minutes(saved=False)
    starting.loaders = (loader(samples=8 * EPOCH, workers=2), of(10_000))
    assert not ends_told(starting).seen


def test_batches_of_a_pass_are_known_where_samples_and_their_number_are() -> None:
    assert batches_of(loader(samples=65, batch_size=8)) == 9
    assert batches_of(loader(samples=65, batch_size=8, iterable=True)) is None


EPOCHS = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train = DataLoader(Pictures(4000), batch_size=8, shuffle=True)
    test = DataLoader(Pictures(1600), batch_size=8)
    while True:
        for pictures, labels in train:
            train_step(model, optimizer, pictures, labels)
        torch.save(model.state_dict(), "model.pt")
        with torch.no_grad():
            for pictures, labels in test:
                model(pictures)
"""


def test_a_worker_evaluates_as_often_and_as_long_as_its_share_says(tmp_path: Path) -> None:
    forked, worked = workers_forked(), trials_for(tmp_path, EPOCHS)
    with forked, worked as trials, trials.worker(share_of_epochs=0.02) as worker:
        worker.wait_started()
        worker.steps(35)
        at = [number for number, step in enumerate(worker.history) if step.evaluations]
        assert at == [10, 20, 30]
        assert [worker.history[number].evaluations for number in at] == [4] * 3
        assert [number for number, step in enumerate(worker.history) if step.saves] == at
        assert [batches_of(one) for one in worker.observation().loaders] == [500, 200]
