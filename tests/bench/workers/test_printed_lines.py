"""Which differences in what is printed are told."""

from __future__ import annotations

import pytest

from hasten.bench.workers.printed_lines import Cut, difference, samples_counted

ALIKE = [
    ("epoch 1: loss 0.7060, accuracy 0.8190, 4.4 s", "epoch 1: loss 0.7061, accuracy 0.8195, 9.1 s"),
    ("time: 12.5 loss 1.0", "time: 3.5 loss 1.0"),
    ("2026-01-02 10:11:12,345 loss 2.31", "2026-01-02 10:11:19,001 loss 2.31"),
    (" 30%|###  | 3/10 [00:01<00:02, 12.1it/s]", " 30%|###  | 3/10 [00:04<00:09,  2.1it/s]"),
    (" 30%|###  | 3/10 [00:01<00:02, 12.1it/s]", " 30%|###  | 4/10 [00:04<00:09,  2.1it/s]"),
    ("Epoch 0:  30%|###  |  3/10 [00:01<00:02]", "Epoch 0:  30%|###  | 4/10 [00:04<00:09]"),
    ("Training 3/10 0:00:01 loss 1.0", "Training 4/10 0:00:02 loss 1.0"),
    ("11/27/2026 10:11:12 loss 1.0", "11/28/2026 00:01:12 loss 1.0"),
    ("11/27/26-10:11 loss 1.0", "1/2/27-00:01 loss 1.0"),
    ("loss 1.2e-05", "loss 1.3e-05"),
]
OTHER = [
    ("loss 0.7060", "loss 0.3530"),
    ("accuracy 0.61", "accuracy 0.75"),
    ("samples 64", "samples 32"),
    ("saved", "not saved"),
    ("Epoch 1 [192/512 (38%)] loss 1.0", "Epoch 1 [96/512 (38%)] loss 1.0"),
    ("loss: 2.3  [   64/10240]", "loss: 2.3  [   32/10240]"),
    ("| 64/128 | 2/3 |", "| 32/128 | 2/3 |"),
    ("Accuracy: 100/128 at 10:11", "Accuracy: 50/128 at 10:12"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_rounding_and_times_are_no_difference(one: str, other: str) -> None:
    assert difference([one], [other]) == ""


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_words_and_numbers_are_one(one: str, other: str) -> None:
    assert difference(["same", one], ["same", other]) == (
        f"ranks print {other!r} where one process prints {one!r}"
    )


def test_a_line_that_only_one_came_to_is_none() -> None:
    assert difference(["a", "b"], ["a"]) == difference([], ["a"]) == ""


def test_what_gloo_prints_where_ranks_connect_is_none() -> None:
    connected = "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
    assert difference(["a", "b"], [connected, "a", connected, "b"]) == ""
    assert difference(["a", "b"], [connected, "a", connected, "c"]) != ""


def test_what_has_drifted_by_a_little_ends_the_comparison() -> None:
    alone = ["loss 1.000", "loss 1.000", "loss 1.000"]
    assert difference(alone, ["loss 1.000", "loss 1.050", "loss 2.000"]) == ""
    assert difference(alone, ["loss 1.005", "loss 2.000", "loss 1.050"]) != ""


FINE = [
    ("accuracy 0.494", "accuracy 0.982", True),
    ("train_loss_epoch 0.635", "train_loss_epoch 0.641", True),
    ("loss 0.70601", "loss 0.70602", False),
    ("loss 1.2345e-05", "loss 1.2346e-05", False),
    ("loss 1.2345e-05", "loss 1.2445e-05", True),
    ("right 37 of 50", "right 38 of 50", False),
    ("right 37 of 50", "right 19 of 50", True),
    ("right 37/50", "right 38/50", False),
    ("right 37/50", "right 19/50", True),
    ("loss 0.7060123456789", "loss 0.7060123456790", False),
    ("loss 0.7060123456789", "loss 0.7061123456789", True),
]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("one", "other", "differs"), FINE)
def test_of_trainings_in_float64_every_printed_digit_counts(one: str, other: str, differs: bool) -> None:
    assert bool(difference([one], [other], fine=True)) == differs


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("one", "other", "again", "differs"),
    [
        ("waited 0.51", "waited 0.91", "waited 0.53", False),
        ("waited 0.51 loss 2.0", "waited 0.91 loss 1.0", "waited 0.53 loss 2.0", True),
        ("run abc", "run bcd", "run xyz", False),
        ("run abc", "run bcd", "run abc", True),
    ],
)
def test_what_one_process_does_not_print_twice_counts_for_nothing(
    one: str, other: str, again: str, differs: bool
) -> None:
    assert bool(difference([one], [other], [again])) == differs


CUT = Cut(64, 32)
COUNTS = [
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.1", "Train Epoch: 1 [320/60000 (1%)]\tLoss: 2.1"),
    ("loss: 2.302100  [   64/60000]", "loss: 2.302100  [   32/60000]"),
    ("seen 59968", "seen 29984"),
]
NO_COUNTS = [
    ("right 37", "right 19"),
    ("mean loss 0.50", "mean loss 0.25"),
    ("sum -64", "sum -32"),
    ("seen 320", "seen 640"),
]


@pytest.mark.attack("truth")
@pytest.mark.parametrize("fine", [True, False])
@pytest.mark.parametrize(("one", "other"), COUNTS)
def test_samples_of_a_part_may_be_counted_and_that_is_said(one: str, other: str, fine: bool) -> None:
    assert difference([one], [other], fine=fine) != ""
    assert difference([one], [other], fine=fine, cut=CUT) == ""
    assert (
        samples_counted(["same", one], ["same", other], CUT) == f"{other!r} where one process prints {one!r}"
    )


@pytest.mark.attack("truth")
@pytest.mark.parametrize("fine", [True, False])
@pytest.mark.parametrize(("one", "other"), NO_COUNTS)
def test_what_is_no_count_of_samples_is_a_difference(one: str, other: str, fine: bool) -> None:
    assert difference([one], [other], fine=fine, cut=CUT) != ""
    assert samples_counted([one], [other], CUT) == ""


def test_what_else_differs_in_such_a_line_is_a_difference() -> None:
    for one, other in (("loss 2.0 [640/60000]", "loss 1.0 [320/60000]"), ("right 37/64", "right 19/32")):
        assert difference([one], [other], cut=CUT) != ""
        assert samples_counted([one], [other], CUT) != ""


def test_what_is_printed_alike_counts_nothing() -> None:
    assert samples_counted(["loss 1.0 [0/60000]", "a"], ["loss 1.0 [0/60000]", "a"], CUT) == ""
