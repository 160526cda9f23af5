"""Where the wall clock of whole runs goes: scripts whose time is spent elsewhere than in steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.bench.observe import WatchOn, observe
from hasten.records.observation import Observation
from hasten.records.whole_run import WatchedRun

from ..inside.distributed.forked import workers_forked
from .shapes import FOLDER
from .trial import trials_for


def line_of(script: str, text: str) -> str:
    """Where a script has ``text`` for the first time: "evaluates_most.py:32"."""
    for number, line in enumerate((FOLDER / f"{script}.py").read_text().splitlines(), 1):
        if text in line:
            return f"{script}.py:{number}"
    raise AssertionError(f"{script} has no {text}")


def watched(script: str, folder: Path, on: WatchOn, steps: int = 8) -> Observation:
    folder.mkdir()
    with workers_forked(), trials_for(FOLDER / f"{script}.py", folder) as trials:
        observation, rhythm = observe(trials, steps=steps, warmup_steps=2, on=on)
    assert observation.run is not None
    assert rhythm.planned_steps == observation.run.planned_steps
    return observation


def whole_run(script: str, folder: Path) -> WatchedRun:
    run = watched(script, folder, WatchOn(whole=True)).run
    assert run is not None
    assert run.ended
    accounted = sum(part.seconds for part in run.parts if part.name != "other")
    assert accounted == pytest.approx(run.seconds, rel=0.02)
    assert run.part("start").seconds > 0
    return run


def where(run: WatchedRun, part: str) -> list[str]:
    return [place.rsplit("/", 1)[-1] for place in run.part(part).where]


def test_evaluation_that_takes_most_of_a_run(tmp_path: Path) -> None:
    run = whole_run("evaluates_most", tmp_path / "work")
    assert (run.epochs, run.epoch_steps, run.part("steps").count) == (6, 20, 120)
    evaluation = run.part("evaluation")
    assert (evaluation.count, evaluation.samples, len(evaluation.each)) == (6, 6 * 2560, 6)
    assert where(run, "evaluation") == [line_of("evaluates_most", "in test_loader")]
    assert run.part("first batches").count == 6
    assert run.part("epoch turns").count == 5
    assert run.part("output").count == 120 + 6
    assert where(run, "output")[0].startswith("evaluates_most.py:")


def test_an_evaluations_fetches_are_no_steps(tmp_path: Path) -> None:
    seen = watched("evaluates_most", tmp_path / "work", WatchOn(whole=True))
    places = {wait.where.rsplit("/", 1)[-1] for wait in seen.waits}
    assert places == {line_of("evaluates_most", 'print(f"step')}
    assert all(wait.calls == pytest.approx(1.0, abs=0.05) for wait in seen.waits)  # but for epochs' last


@pytest.mark.thorough
def test_evaluation_with_gradients(tmp_path: Path) -> None:
    run = whole_run("evaluates_with_gradients", tmp_path / "work")
    assert (run.epochs, run.part("steps").count) == (5, 150)
    assert (run.part("evaluation").count, run.part("evaluation").samples) == (5, 5 * 240)
    assert where(run, "evaluation") == [line_of("evaluates_with_gradients", "in valid_loader")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "epochs", "evaluations"),
    [
        ("forgets_eval", 6, 6),  # neither eval() nor a loader
        ("forgets_both", 7, 7),  # neither eval() nor no_grad()
        ("evaluates_average", 5, 5),  # of a model that is not trained itself
        ("distillation", 7, 0),  # a teacher is part of each step
        ("target_network", 0, 0),
    ],
)
def test_which_passes_are_evaluations(script: str, epochs: int, evaluations: int, tmp_path: Path) -> None:
    run = whole_run(script, tmp_path / "work")
    assert run.epochs == epochs
    assert run.part("evaluation").count == evaluations


@pytest.mark.thorough
def test_workers_that_start_with_each_epoch(tmp_path: Path) -> None:
    run = whole_run("short_epochs_with_workers", tmp_path / "work")
    assert (run.epochs, run.epoch_steps) == (12, 10)
    first = run.part("first batches")
    assert (first.count, len(first.each)) == (12, 12)
    assert first.seconds > 0
    assert where(run, "first batches") == [line_of("short_epochs_with_workers", "in loader")]
    assert run.part("evaluation").count == 0


@pytest.mark.thorough
def test_files_that_are_saved(tmp_path: Path) -> None:
    run = whole_run("saves_each_epoch", tmp_path / "work")
    assert run.part("saving").count == 5
    assert set(where(run, "saving")) == {
        line_of("saves_each_epoch", "torch.save"),
        line_of("saves_each_epoch", "pickle.dump"),
    }


@pytest.mark.thorough
def test_objects_that_are_collected(tmp_path: Path) -> None:
    run = whole_run("makes_many_objects", tmp_path / "work")
    assert run.part("garbage").count > 10
    assert (run.epochs, run.epoch_steps) == (0, None)


@pytest.mark.thorough
def test_validation_within_epochs(tmp_path: Path) -> None:
    """What was validated before the first step belongs to the start."""
    run = whole_run("validates_within_epochs", tmp_path / "work")
    assert (run.epochs, run.epoch_steps, run.part("steps").count) == (4, 40, 160)
    assert (run.part("evaluation").count, run.part("evaluation").samples) == (16, 16 * 120)
    assert where(run, "evaluation") == [line_of("validates_within_epochs", "in enumerate(loader)")]
    assert run.part("first batches").count == 4


# ---- by default, until an epoch has ended
def test_an_epoch_that_ends_soon_is_waited_for(tmp_path: Path) -> None:
    seen = watched("evaluates_most", tmp_path / "work", WatchOn(seconds=1000.0))
    run = seen.run
    assert run is not None
    assert not run.ended
    assert run.epochs >= 1
    assert len(seen.steps) == 8
    epochs = {part.name: part for part in run.whole_epochs}
    assert epochs["steps"].count == 20 * run.epochs
    assert epochs["evaluation"].count == epochs["first batches"].count == run.epochs
    assert epochs["start"].seconds == 0


@pytest.mark.thorough
def test_nothing_waits_if_no_loader_says_how_long(tmp_path: Path) -> None:
    run = watched("makes_many_objects", tmp_path / "work", WatchOn(seconds=1000.0)).run
    assert run is not None
    assert (run.ended, run.epochs, run.part("steps").count) == (False, 0, 1 + 2 + 8)


FAILS = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
raise ValueError("too late")
"""


def test_a_script_that_fails_later_was_seen_until_then(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    (tmp_path / "work").mkdir()
    with workers_forked(), trials_for(script, tmp_path / "work") as trials:
        seen, _ = observe(trials, steps=8, warmup_steps=2, on=WatchOn(whole=True))
    assert seen.run is not None
    assert (seen.run.ended, seen.run.part("steps").count, len(seen.steps)) == (False, 40, 8)
    assert seen.run.failure == "the script raised ValueError: too late"


@pytest.mark.thorough
def test_an_epoch_that_is_too_long_is_not_waited_for(tmp_path: Path) -> None:
    run = watched("evaluates_most", tmp_path / "work", WatchOn(seconds=1e-6)).run
    assert run is not None
    assert (run.epochs, run.epoch_steps, run.part("steps").count) == (0, 20, 11)


TEACHES = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(320, 10)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
teacher, student = (nn.Sequential(nn.Linear(10, n), nn.ReLU(), nn.Linear(n, 1)) for n in (64, 8))


def train(model, loss_of, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    model.train()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()


def distilled(model, inputs, targets):
    with torch.no_grad():
        taught = teacher(inputs)
    return nn.functional.mse_loss(model(inputs), taught)


def test(model):
    model.eval()
    with torch.no_grad():
        print(sum(nn.functional.mse_loss(model(inputs), targets) for inputs, targets in loader))


train(teacher, lambda model, inputs, targets: nn.functional.mse_loss(model(inputs), targets), 3)
test(teacher)
train(student, distilled, 3)
test(student)
"""


def test_a_teacher_that_was_trained_before_belongs_to_the_students_steps(tmp_path: Path) -> None:
    """It is in eval mode from then on."""
    script = tmp_path / "distils.py"
    script.write_text(TEACHES)
    (tmp_path / "work").mkdir()
    with workers_forked(), trials_for(script, tmp_path / "work") as trials:
        observation, _ = observe(trials, steps=8, warmup_steps=2, on=WatchOn(whole=True))
    run = observation.run
    assert run is not None
    assert (run.epochs, run.epoch_steps, run.part("steps").count) == (6, 20, 120)
    evaluation = run.part("evaluation")
    assert (evaluation.count, evaluation.samples) == (2, 2 * 320)


# ---- how long it will be
@pytest.mark.parametrize(
    ("script", "planned"),
    [
        ("module_level", 160),
        ("trainer_class", 150),
        ("accumulation_with_remainder", 161),
        ("gan_three_backwards", 160),
        ("no_dataloader", 150),
        ("reinforcement", 150),
        ("replay_memory", 150),  # every second turn from the 50th on
        ("forward_forward", None),  # layer after layer
        ("callbacks", None),  # a finder of learning rates trains before
    ],
)
def test_the_loops_around_a_step_say_how_long_a_run_will_be(
    script: str, planned: int | None, tmp_path: Path
) -> None:
    run = watched(script, tmp_path / "work", WatchOn(), steps=40).run
    assert run is not None
    assert not run.ended
    assert run.planned_steps == planned


def test_turns_of_many_evaluations_say_how_long_a_run_will_be(tmp_path: Path) -> None:
    run = watched("style_transfer", tmp_path / "work", WatchOn(), steps=80).run
    assert run is not None
    assert run.planned_steps == 12 * 20


def test_a_script_that_ends_while_it_is_watched_on_is_as_long_as_that(tmp_path: Path) -> None:
    """An epoch's end was waited for, and the last one's is the script's."""
    folder = tmp_path / "work"
    folder.mkdir()
    with workers_forked(), trials_for(FOLDER / "five_steps.py", folder) as trials:
        _, short = observe(trials, steps=2, warmup_steps=1, on=WatchOn(whole=True))
    assert short.steps_in_all == 5
    folder = tmp_path / "another"
    folder.mkdir()
    with workers_forked(), trials_for(FOLDER / "module_level.py", folder) as trials:
        observation, rhythm = observe(trials, steps=8, warmup_steps=2, on=WatchOn(whole=True))
    assert rhythm.steps_in_all == 160
    assert observation.rest is not None


def test_a_network_that_a_loss_looks_through_is_seen_and_not_trained(tmp_path: Path) -> None:
    """An evaluation looks through it, too, and is one."""
    seen = watched("perceptual_loss", tmp_path / "work", WatchOn(), steps=25)
    assert [root.name.rsplit(".", 1)[-1] for root in seen.roots] == ["Sequential", "Features"]
    assert [bool(root.trained) for root in seen.roots] == [True, False]
    assert seen.run is not None
    assert seen.run.part("evaluation").count == 2
