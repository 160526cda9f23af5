"""Each moment of a run belongs to one part, by a clock that the test moves: all times are whole seconds."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from hasten.inside.observing import timeline as module
from hasten.inside.observing.epoch_passes import is_gone
from hasten.inside.observing.timeline import Timeline
from hasten.records.whole_run import WatchedRun, breakdown_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Script:
    """Tells a timeline what a script does, and for how long."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.line = "train.py:1"
        self.timeline = Timeline(clock(), lambda: self.line)

    def takes(self, seconds: float) -> None:
        self.clock.now += seconds

    def begins(
        self,
        batches: int | None = None,
        seconds: float = 0.0,
        line: str = "train.py:1",
        source: int = 0,
        of: str = "",
        held: Callable[[], object] = is_gone,
    ) -> None:
        self.line = line
        self.timeline.loader_begins(batches)
        if of:
            self.timeline.pass_begins(source, of, held)
        self.takes(seconds)

    def batch(self, seconds: float = 0.0, samples: int = 8, source: int = 0) -> None:
        self.timeline.batch_waited_for()
        self.takes(seconds)
        self.timeline.batch_came(samples, source)

    def forward(
        self, seconds: float, recording: bool = True, mode: bool = True, observations: int = 0
    ) -> None:
        self.timeline.forward_begins(recording)
        self.takes(seconds)
        self.timeline.forward_ended(recording, mode, observations)

    def trains(self, seconds: float = 2.0, mode: bool = True, inputs: int = 0) -> None:
        """A forward and a backward pass, and a step. ``inputs``: samples of it that no loader gave."""
        self.forward(seconds / 2, mode=mode)
        self.timeline.backward_begins()
        self.takes(seconds / 2)
        self.ends_step(inputs=inputs)

    def ends_step(self, stands: float = 100.0, inputs: int = 0) -> None:
        self.timeline.step_ended(inputs)
        self.takes(stands)  # the coordinator asks for something
        self.timeline.goes_on()

    def evaluates(
        self, batches: int, seconds: float = 1.0, recording: bool = False, mode: bool = False
    ) -> None:
        self.begins(batches, seconds, "test.py:5")
        for _ in range(batches):
            self.batch(seconds)
            self.forward(seconds, recording, mode)
            self.takes(seconds)
        self.exhausts()

    def exhausts(self, seconds: float = 0.0, source: int = 0) -> None:
        self.timeline.batch_waited_for()
        self.takes(seconds)
        self.timeline.loader_exhausted(source)

    def does(self, part: str, seconds: float, line: str = "save.py:1") -> None:
        entered = self.timeline.enter(part)
        self.takes(seconds)
        assert entered is not None
        self.timeline.leave(part, entered, line)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    clock = Clock()
    monkeypatch.setattr(module, "clock", clock)
    return Script(clock)


def parts(run: WatchedRun) -> dict[str, float]:
    assert sum(part.seconds for part in run.parts) == pytest.approx(run.seconds)
    return {part.name: part.seconds for part in run.parts if part.seconds}


def epoch(script: Script, steps: int = 3) -> None:
    script.begins(steps, 4.0)
    for _ in range(steps):
        script.batch(1.0)
        script.trains(2.0)
    script.exhausts(1.0)


def test_a_run_from_start_to_end(script: Script) -> None:
    script.takes(10.0)
    for _ in range(2):
        epoch(script)
        script.takes(3.0)
    run = script.timeline.watched(ended=True)
    assert parts(run) == {
        "start": 10.0,
        "first batches": 2 * (4.0 + 1.0),
        "steps": 6 * 2.0 + 4 * 1.0,
        "epoch turns": 1.0 + 3.0,
        "tail": 1.0 + 3.0,
    }
    assert (run.epochs, run.epoch_steps, run.seconds) == (2, 3, 10.0 + 2 * 17.0)
    assert run.part("steps").count == 6
    assert run.part("first batches").each == (5.0, 5.0)


def test_what_was_watched_until_now(script: Script) -> None:
    """The coordinator asks while the script waits at a step's end."""
    script.takes(10.0)
    epoch(script)
    script.begins(3, 4.0)
    script.batch(1.0)
    script.forward(1.0)
    script.timeline.backward_begins()
    script.timeline.step_ended()
    script.takes(500.0)
    run = script.timeline.watched(ended=False)
    assert parts(run) == {"start": 10.0, "first batches": 10.0, "steps": 9.0, "epoch turns": 1.0}
    assert (run.epochs, run.ended) == (1, False)
    whole = {part.name: part.seconds for part in run.whole_epochs if part.seconds}
    assert whole == {"first batches": 5.0, "steps": 8.0, "epoch turns": 1.0}


@pytest.mark.parametrize(
    ("recording", "mode"),
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["no_grad and eval", "eval alone", "no_grad alone", "neither"],
)
def test_a_pass_in_which_nothing_is_trained_is_an_evaluation(
    script: Script, recording: bool, mode: bool
) -> None:
    epoch(script)
    script.evaluates(4, 1.0, recording, mode)
    script.takes(7.0)
    epoch(script)
    run = script.timeline.watched(ended=False)
    assert parts(run)["evaluation"] == 1.0 + 4 * 3.0
    assert parts(run)["epoch turns"] == 1.0 + 7.0
    evaluation = run.part("evaluation")
    assert (evaluation.count, evaluation.samples, evaluation.where) == (1, 32, ("test.py:5",))
    assert run.part("first batches").count == 2


def test_an_evaluation_that_is_broken_off(script: Script) -> None:
    """After two of its batches; the epoch goes on."""
    script.begins(9, 4.0)
    for number in range(4):
        script.batch(1.0)
        script.trains(2.0)
        if number == 1:
            script.begins(9, 1.0, "test.py:5")
            for _ in range(2):
                script.batch(1.0)
                script.forward(1.0, recording=False, mode=False)
            script.takes(3.0)
    run = script.timeline.watched(ended=False)
    assert parts(run) == {"first batches": 5.0, "steps": 3 * 1.0 + 4 * 2.0, "evaluation": 1.0 + 4.0 + 3.0}
    assert run.part("first batches").count == 1


def test_evaluations_on_two_sets_are_two(script: Script) -> None:
    """The epoch ends after them."""
    script.begins(3, 4.0)
    script.batch(1.0)
    script.trains(2.0)
    script.evaluates(2)
    script.evaluates(2)
    script.takes(3.0)
    script.exhausts(1.0)
    run = script.timeline.watched(ended=True)
    assert run.part("evaluation").each == (7.0, 7.0)
    assert (run.epochs, parts(run)["tail"]) == (1, 4.0)


@pytest.mark.parametrize("occasions", [1, 2])
def test_evaluations_with_no_step_in_between_do_not_say_how_often_they_come(
    script: Script, occasions: int
) -> None:
    script.begins(60)
    script.batch()
    script.trains()
    for _ in range(occasions):
        script.evaluates(2)
        script.evaluates(3)
        script.trains()
    run = script.timeline.watched(ended=False)
    evaluation = run.part("evaluation")
    assert (evaluation.count, evaluation.occasions) == (2 * occasions, occasions)
    assert (breakdown_of(run).share("evaluation") > 0) == (occasions > 1)


def test_one_collection_among_steps_does_not_say_how_often_it_comes(script: Script) -> None:
    script.begins(60)
    script.batch()
    script.trains()
    script.timeline.collected(9.0)
    script.timeline.collected(1.0)
    script.trains()
    run = script.timeline.watched(ended=False)
    assert run.part("garbage").seconds == 10.0
    assert breakdown_of(run).part("garbage").seconds == 1.0
    ended = replace(run, ended=True)
    assert breakdown_of(ended).part("garbage").seconds == 10.0


def test_an_evaluation_that_reads_ahead_is_one(script: Script) -> None:
    """As accelerate does: a loader has none left before the last forward pass."""
    epoch(script)
    script.begins(2, 1.0, "test.py:5")
    script.batch(1.0)
    script.batch(1.0)
    script.forward(1.0, recording=False, mode=False)
    script.exhausts(1.0)
    script.forward(1.0, recording=False, mode=False)
    script.takes(3.0)
    epoch(script)
    run = script.timeline.watched(ended=False)
    assert run.part("evaluation").each == (6.0,)
    assert (run.part("evaluation").samples, parts(run)["epoch turns"]) == (16, 1.0 + 3.0)


def test_an_evaluation_without_a_loader(script: Script) -> None:
    script.trains(2.0)
    script.trains(2.0)
    for _ in range(3):
        script.forward(5.0, recording=False, mode=False)
        script.takes(1.0)
    script.trains(2.0)
    run = script.timeline.watched(ended=False)
    assert parts(run) == {"steps": 6.0, "evaluation": 18.0}
    assert run.part("evaluation").count == 1


def test_who_trains_in_evaluation_mode_does_not_evaluate(script: Script) -> None:
    """A frozen batch norm, say: the mode alone tells nothing then."""
    for _ in range(3):
        script.forward(1.0, mode=False)
        script.trains(2.0, mode=False)
    assert parts(script.timeline.watched(ended=False)) == {"steps": 9.0}


def test_one_of_two_modules_in_evaluation_mode(script: Script) -> None:
    """A critic in evaluation mode, through which a generator is trained."""
    for _ in range(3):
        script.trains(2.0)
        script.forward(1.0)
        script.trains(2.0, mode=False)
    assert parts(script.timeline.watched(ended=False)) == {"steps": 15.0}


def test_teachers_and_rollouts_are_steps(script: Script) -> None:
    """Forward passes without gradients, in training mode, in each step."""
    for _ in range(3):
        script.forward(1.0, recording=False)
        script.trains(2.0)
    assert parts(script.timeline.watched(ended=False)) == {"steps": 9.0}


@pytest.mark.parametrize(
    ("observations", "passes", "inputs"),
    [(8, 128, 64), (4, 8, 16), (1, 4, 32), (1, 1, 256)],
    ids=["PPO", "A2C", "DQN", "SAC"],
)
def test_rollouts_in_evaluation_mode_are_steps(
    script: Script, observations: int, passes: int, inputs: int
) -> None:
    """Few observations at a time, of which no loader gave any, and all are learned from."""
    script.trains(2.0, inputs=inputs)
    for _ in range(3):
        for _ in range(passes):
            script.forward(1.0, recording=False, mode=False, observations=observations)
            script.takes(1.0)
        for _ in range(10):
            script.trains(2.0, inputs=inputs)
    run = script.timeline.watched(ended=False)
    assert parts(run) == {"steps": 31 * 2.0 + 3 * passes * 2.0}
    assert run.rollouts == 3


@pytest.mark.parametrize(
    ("observations", "passes", "inputs"),
    [(64, 400, 64), (200, 2, 800), (0, 500, 64), (1, 500, 0)],
    ids=["batches like the training's", "whole sets", "writes text", "trains from a loader"],
)
def test_evaluations_without_a_loader_are_no_rollouts(
    script: Script, observations: int, passes: int, inputs: int
) -> None:
    for _ in range(3):
        script.trains(2.0, inputs=inputs)
        for _ in range(passes):
            script.forward(1.0, recording=False, mode=False, observations=observations)
    script.trains(2.0, inputs=inputs)
    run = script.timeline.watched(ended=False)
    assert (run.part("evaluation").count, run.rollouts) == (3, 0)


def test_single_samples_from_a_loader_are_evaluated(script: Script) -> None:
    """Though none gives the training its batches."""
    for _ in range(3):
        script.trains(2.0, inputs=64)
        script.begins(100, line="test.py:1")
        for _ in range(100):
            script.batch(samples=1)
            script.forward(1.0, recording=False, mode=False, observations=1)
        script.exhausts()
    script.trains(2.0, inputs=64)
    run = script.timeline.watched(ended=False)
    assert (run.part("evaluation").count, run.rollouts) == (3, 0)


def test_who_forgets_eval_evaluates_between_epochs(script: Script) -> None:
    """Under no_grad, by batches that no loader gave; also after the last epoch."""
    for _ in range(2):
        epoch(script)
        script.exhausts()
        for _ in range(2):
            script.forward(3.0, recording=False, mode=True)
    run = script.timeline.watched(ended=True)
    evaluation = run.part("evaluation")
    assert (evaluation.count, evaluation.seconds) == (2, 12.0)
    assert run.epochs == 2


def test_a_rollout_at_an_epochs_beginning_is_a_step(script: Script) -> None:
    epoch(script)
    script.exhausts()
    script.begins(3)
    script.batch()
    script.forward(5.0, recording=False, mode=True)
    script.trains(2.0)
    run = script.timeline.watched(ended=False)
    assert run.part("evaluation").count == 0
    assert run.part("steps").seconds >= 7.0


def test_what_is_validated_before_the_first_step_belongs_to_the_start(script: Script) -> None:
    script.takes(1.0)
    script.begins(2, 1.0)
    script.batch(1.0)
    script.takes(5.0)
    script.exhausts()
    epoch(script)
    assert parts(script.timeline.watched(ended=False))["start"] == 8.0


def test_a_forward_pass_before_the_training_belongs_to_the_start(script: Script) -> None:
    """To see what comes out of the model, say."""
    script.takes(1.0)
    script.forward(2.0)
    script.takes(3.0)
    epoch(script)
    assert parts(script.timeline.watched(ended=False))["start"] == 6.0


# ---- parts within others
def test_parts_are_taken_out_of_what_they_lie_within(script: Script) -> None:
    epoch(script)
    script.does("saving", 8.0)
    script.does("output", 2.0)
    script.takes(1.0)
    epoch(script)
    run = script.timeline.watched(ended=False)
    found = parts(run)
    assert (found["saving"], found["output"], found["epoch turns"]) == (8.0, 2.0, 1.0 + 1.0)
    assert run.part("saving").where == ("save.py:1",)


def test_the_innermost_counts(script: Script) -> None:
    script.trains(2.0)
    saving = script.timeline.enter("saving")
    assert saving is not None
    script.takes(3.0)
    printing = script.timeline.enter("output")
    assert printing is not None
    script.takes(2.0)
    script.timeline.collected(1.0)
    script.timeline.leave("output", printing)
    assert script.timeline.enter("saving") is None  # it is part of the one that is under way
    script.timeline.leave("saving", saving)
    script.trains(2.0)
    found = parts(script.timeline.watched(ended=False))
    assert found == {"steps": 4.0, "saving": 3.0, "output": 1.0, "garbage": 1.0}


def test_a_collection_within_a_step(script: Script) -> None:
    script.trains(2.0)
    script.forward(3.0)
    script.timeline.collected(2.0)
    script.trains(2.0)
    assert parts(script.timeline.watched(ended=False)) == {"steps": 5.0, "garbage": 2.0}


def test_collections_before_the_first_step_are_the_starts(script: Script) -> None:
    script.takes(3.0)
    script.timeline.collected(2.0)
    script.begins(3, 0.0)
    script.trains(2.0)
    assert parts(script.timeline.watched(ended=False)) == {"start": 3.0, "steps": 2.0}


def test_a_loader_begun_anew_for_a_few_labels_is_no_epoch(script: Script) -> None:
    """Two of 10 batches with labels end while 3 of many without go on; both end together in step 6."""
    script.begins(2, of="labelled", source=1)
    script.begins(6, of="others", source=2)
    labelled = 1
    for step in range(9):
        if step and step % 2 == 0:
            script.exhausts(source=labelled)
            labelled += 10
            script.begins(2, of="labelled", source=labelled)
        script.batch(source=labelled)
        if step == 6:
            script.exhausts(source=2)
            script.begins(6, of="others", source=3)
        script.batch(source=3 if step >= 6 else 2)
        script.trains(1.0)
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.epoch_steps) == (1, 6)
    assert run.part("evaluation").count == 0


def test_loaders_that_take_turns_are_read_in_one_epoch(script: Script) -> None:
    """The second begins after one step with the first, and an evaluation."""
    for step in range(7):
        number = step % 2 + 1
        if step < 2:
            script.begins(50, of=f"loader {number}", source=number, held=object)
        script.batch(source=number)
        script.trains(1.0)
        if not step:
            script.evaluates(2)
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.whole_epochs) == (0, ())
    assert breakdown_of(run).part("evaluation").count == 0


def test_a_loader_begun_after_one_that_was_left_early_begins_an_epoch(script: Script) -> None:
    for number in (1, 2):
        script.begins(50, of=f"loader {number}", source=number)
        for _ in range(4):
            script.batch(source=number)
            script.trains(1.0)
    assert script.timeline.watched(ended=False).epochs == 1


def test_a_pass_begun_for_one_batch_in_every_step_is_no_epoch(script: Script) -> None:
    for step in range(5):
        script.begins(50, 1.0, of="loader", source=step + 1)
        script.batch(source=step + 1)
        script.trains(2.0)
    run = script.timeline.watched(ended=False)
    assert run.epochs == 0
    assert parts(run) == {"first batches": 1.0, "steps": 14.0}


def test_a_second_loader_begun_in_every_step_leaves_epochs_as_they_are(script: Script) -> None:
    """As where architectures are searched for: weights are trained on one half, they on the other."""
    for epoch in range(3):
        script.begins(4, of="train", source=100 + epoch)
        for step in range(4):
            script.batch(source=100 + epoch)
            number = 10 * epoch + step + 1
            script.begins(4, of="valid", source=number)
            script.batch(source=number)
            script.trains(1.0)
        script.exhausts(source=100 + epoch)
        script.evaluates(2)
    run = script.timeline.watched(ended=False)
    assert run.epochs == 3
    assert run.part("evaluation").count == 3


def test_one_that_was_read_to_its_end_does_not_go_on_however_long_it_is_held(script: Script) -> None:
    for number in (1, 2):
        script.begins(4, of=f"loader {number}", source=number, held=object)
        for _ in range(4):
            script.batch(source=number)
            script.trains(1.0)
        script.exhausts(source=number)
    assert script.timeline.watched(ended=False).epochs == 2


@pytest.mark.parametrize(("taken", "steps", "seen"), [(4, 4, True), (49, 50, False)])
def test_epochs_that_a_script_cuts_short_are_epochs(
    script: Script, taken: int, steps: int, seen: bool
) -> None:
    """Where hardly a step is missing, the loader may be read to its end: its last batches do not suffice for
    one more, for example.
    """
    for epoch in range(3):
        script.begins(50, of="loader", source=epoch + 1)
        for _ in range(taken):
            script.batch(source=epoch + 1)
            script.trains(1.0)
        script.batch(source=epoch + 1)  # and then it breaks off
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.epoch_steps, run.epoch_seen) == (2, steps, seen)


def test_one_that_was_left_early_before_longer_ones_says_nothing_of_these(script: Script) -> None:
    """A learning rate is sought in the first steps."""
    for epoch, steps in enumerate((4, 30)):
        script.begins(50, of="loader", source=epoch + 1)
        for _ in range(steps):
            script.batch(source=epoch + 1)
            script.trains(1.0)
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.epoch_steps, run.epoch_seen) == (1, 50, False)


def test_one_of_another_loader_was_not_left_early(script: Script) -> None:
    """Ten batches to warm up with, all of which were used."""
    for epoch, (batches, steps) in enumerate(((10, 10), (100, 5))):
        script.begins(batches, of="loader", source=epoch + 1)
        for _ in range(steps):
            script.batch(source=epoch + 1)
            script.trains(1.0)
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.epoch_steps, run.epoch_seen) == (1, 100, False)


@pytest.mark.parametrize(("lengths", "steps"), [((5, 4), 5), ((9, 4), None)])
def test_epochs_of_a_loader_that_has_no_length(
    script: Script, lengths: tuple[int, ...], steps: int | None
) -> None:
    for epoch, each in enumerate(lengths):
        script.begins(None, of="stream", source=epoch + 1)
        for _ in range(each):
            script.batch(source=epoch + 1)
            script.trains(1.0)
        script.exhausts(source=epoch + 1)
    run = script.timeline.watched(ended=True)
    assert (run.epochs, run.epoch_steps, run.epoch_seen) == (2, steps, steps is not None)


def test_a_loader_that_was_read_out_before_the_training_is_not_the_epochs(script: Script) -> None:
    """All samples one by one, for their mean and deviation."""
    script.begins(500, 1.0, "statistics.py:1", source=1, of="each")
    for _ in range(500):
        script.batch(source=1)
    script.exhausts(source=1)
    script.takes(3.0)
    script.begins(4, 2.0, source=2, of="train")
    for _ in range(4):
        script.batch(source=2)
        script.trains(1.0)
    script.exhausts(source=2)
    run = script.timeline.watched(ended=True)
    assert (run.epochs, run.epoch_steps) == (1, 4)
    assert parts(run) == {"start": 4.0, "first batches": 2.0, "steps": 4.0}
    assert (run.part("first batches").count, run.part("first batches").where) == (1, ("train.py:1",))


def test_batches_that_were_all_read_before_the_training_are_the_epochs(script: Script) -> None:
    """``list(loader)``"""
    script.begins(4, 1.0, source=1, of="train")
    for _ in range(4):
        script.batch(source=1)
    script.exhausts(source=1)
    for _ in range(8):
        script.trains(1.0)
    assert script.timeline.watched(ended=False).part("first batches").count == 1


def test_passes_that_are_begun_but_not_read_are_no_epochs(script: Script) -> None:
    """As Keras does: each pass ends with another being begun, which is dropped; all are of new loaders."""
    for number in range(0, 90, 10):
        script.begins(3, of=f"train {number}", source=number + 1)
        for _ in range(3):
            script.batch(source=number + 1)
            script.trains(2.0)
        script.begins(3, of=f"train {number} dropped", source=number + 2)
        script.begins(2, of=f"test {number}", source=number + 3)
        for _ in range(2):
            script.batch(1.0, source=number + 3)
            script.forward(1.0, recording=False, mode=False)
        script.begins(2, 1.0, of=f"test {number} dropped", source=number + 4)
    script.begins(3, of="train", source=100)
    script.batch(source=100)
    script.trains(2.0)
    run = script.timeline.watched(ended=False)
    assert (run.epochs, run.part("first batches").count) == (9, 10)
    (evaluation,) = (part for part in run.whole_epochs if part.name == "evaluation")
    assert (evaluation.count, evaluation.seconds) == (9, 9 * 4.0)


def test_loaders_read_side_by_side_begin_one_epoch(script: Script) -> None:
    for number in range(0, 30, 10):
        script.begins(4, 1.0, of="one", source=number + 1)
        script.begins(4, 1.0, of="other", source=number + 2)
        for _ in range(4):
            script.batch(source=number + 1)
            script.batch(source=number + 2)
            script.trains(1.0)
        script.exhausts(source=number + 1)
    part = script.timeline.watched(ended=True).part("first batches")
    assert (part.count, part.seconds) == (3, 6.0)


def test_other_threads_take_no_part(script: Script) -> None:
    script.trains(2.0)

    def elsewhere() -> None:
        assert script.timeline.enter("saving") is None
        script.timeline.collected(1.0)
        script.timeline.loader_begins(3)
        script.forward(0.0, recording=False, mode=False)
        script.timeline.backward_begins()
        script.ends_step(stands=0.0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    script.trains(2.0)
    run = script.timeline.watched(ended=False)
    assert parts(run) == {"steps": 4.0}
    assert (run.epochs, run.part("steps").count) == (0, 2)


@pytest.mark.parametrize("seed", range(10))
def test_parts_add_up_whatever_happens(script: Script, seed: int) -> None:
    draws = random.Random(seed)
    happens: list[Callable[[], object]] = [
        lambda: script.takes(draws.randint(1, 5)),
        lambda: script.begins(draws.choice([None, 3]), draws.randint(0, 3)),
        lambda: script.batch(draws.randint(0, 3)),
        lambda: script.exhausts(draws.randint(0, 3)),
        lambda: script.forward(draws.randint(0, 3), draws.random() < 0.5, draws.random() < 0.5),
        lambda: script.timeline.backward_begins(),
        lambda: script.ends_step(draws.randint(0, 9)),
        lambda: script.does(draws.choice(["saving", "output"]), draws.randint(0, 3)),
        lambda: script.evaluates(draws.randint(0, 3)),
    ]
    began = script.clock.now
    for _ in range(300):
        draws.choice(happens)()
    run = script.timeline.watched(ended=True)
    stood = script.timeline._stood
    assert run.seconds == script.clock.now - began - stood
    assert sum(part.seconds for part in run.parts) == run.seconds
    assert run.part("other").seconds == 0


# ---- where the script stands still
def test_waits_are_counted_where_they_are_of_a_step(script: Script) -> None:
    timeline = script.timeline
    counted: list[str] = []
    timeline.on_waits = lambda waits: counted.extend(name for name, _ in waits)

    def wait(name: str) -> None:
        if timeline.takes_waits():
            timeline.waits.setdefault((name, ""), [1, 0.0])

    script.begins(2)
    script.batch()
    script.trains()
    wait("logged")
    timeline.batch_waited_for()
    wait("made a sample")
    script.batch()
    script.trains()
    timeline.loader_exhausted()
    script.begins(2)
    for _ in range(2):
        script.batch()
        script.forward(1.0, recording=False, mode=False)
        wait("evaluated")
    timeline.loader_exhausted()
    wait("evaluation told")
    script.begins(2)
    wait("epoch begins")
    script.batch()
    wait("with a batch")
    script.trains()
    assert counted == ["logged", "with a batch"]
