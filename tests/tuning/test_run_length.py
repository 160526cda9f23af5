"""How long a run is, by whoever told."""

from __future__ import annotations

import pytest

from hasten.records.run_forecast import RunLength
from hasten.records.whole_run import WatchedRun
from hasten.tuning.run_length import length_of
from tests.bench.made_up import loader, observation, step


def test_a_script_that_came_to_its_end_is_as_long_as_that() -> None:
    assert length_of(observation(), 40) == RunLength(40, 8, "seen")
    assert length_of(observation(), 40).epochs == 5
    assert length_of(observation(), 41).epochs is None


def test_an_epoch_is_what_its_loader_holds() -> None:
    assert length_of(observation(), None) == RunLength(None, 8, "loader")
    uneven = observation(loaders=(loader(samples=65),))
    assert length_of(uneven, None).epoch_steps == 9


def test_the_loaders_own_length_goes_before_that_of_its_samples() -> None:
    told = observation(run=WatchedRun(2.0, False, (), epoch_steps=7))
    assert length_of(told, None) == RunLength(None, 7, "loader")
    assert length_of(told, 21) == RunLength(21, 7, "seen")


def test_epochs_that_are_left_early_are_as_long_as_they_were() -> None:
    left = WatchedRun(2.0, False, (), epoch_steps=7, epoch_seen=True)
    assert length_of(observation(run=left), None) == RunLength(None, 7, "", by_epochs=True)
    assert length_of(observation(run=left), None, planned=21) == RunLength(21, 7, "loops", by_epochs=True)
    assert length_of(observation(run=left), 21).by_epochs is False, "it was seen to its end"


TOLD = observation(run=WatchedRun(2.0, False, (), epoch_steps=7, planned_steps=21))


def test_the_loops_around_a_step_say_how_long_a_run_is() -> None:
    assert length_of(TOLD, None, planned=21) == RunLength(21, 7, "loops")
    assert length_of(TOLD, None, planned=21).epochs == 3
    assert length_of(TOLD, 14, planned=21) == RunLength(14, 7, "seen"), "it was seen to end before"
    without = observation(run=WatchedRun(2.0, False, ()))
    assert length_of(without, None, planned=21) == RunLength(21, None, "loops")


@pytest.mark.attack("truth")
def test_but_not_where_an_epoch_is_seen_to_be_longer() -> None:
    assert length_of(TOLD, None, 10.0, planned=21) == RunLength()


def test_what_watching_could_not_tell_is_not_guessed() -> None:
    """All steps were on one batch, of however many the loader has."""
    assert length_of(observation(run=WatchedRun(2.0, False, ())), None) == RunLength()


def test_an_epoch_of_a_sampler_without_an_end_is_none() -> None:
    """minGPT draws 10^10 samples, and stops by a number of steps."""
    told = observation(run=WatchedRun(2.0, False, (), epoch_steps=156_250_000))
    assert length_of(told, None) == RunLength()


def test_ranks_share_an_epoch() -> None:
    assert length_of(observation(), None, ranks=2).epoch_steps == 4


def test_an_epoch_whose_end_came_later_is_not_what_the_loader_holds() -> None:
    """A sampler may draw more than there are samples."""
    assert length_of(observation(), None, 8.0).epoch_steps == 8
    assert length_of(observation(), None, 4.0).epoch_steps == 8  # an evaluation in the midst of it
    assert length_of(observation(), None, 9.0) == RunLength()


@pytest.mark.parametrize(
    "changes",
    [
        {"loaders": ()},
        {"loaders": (loader(), loader(dataset="Words"))},
        {"loaders": (loader(samples=None),)},
        {"loaders": (loader(samples=10**10),)},
        {"loaders": (loader(iterable=True),)},
        {"loaders": (loader(training=False),)},
        {"steps": tuple(step(samples=None) for _ in range(30))},
    ],
    ids=["none", "two", "no length", "no end", "a stream", "not trained on", "no samples"],
)
def test_otherwise_nothing_is_known(changes: dict[str, object]) -> None:
    assert length_of(observation(**changes), None) == RunLength()
