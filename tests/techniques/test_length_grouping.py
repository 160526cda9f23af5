"""Batches of similar length hold what was drawn, as often as it was drawn; equal seeds give equal batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
)

from hasten.inside.samples.grouped_batches import GroupedBatches, Grouping, columns_of, regrouped
from hasten.inside.seams import Seams
from hasten.inside.techniques.length_grouping import LengthGrouping
from hasten.records.plan import BASELINE, Plan
from hasten.testing.padded_texts import WIDTH, PaddedTexts, TextClassifier
from hasten.testing.technique_contract import trained_from_the_start
from hasten.testing.workbench import workbench

from ..bench.made_up import step
from ..thorough import cases
from .made_up import facts, loader
from .reading import Reading

PLAN = Plan({"length_grouping": {}})
COUNT = 203


class Texts(Dataset[Any]):
    """Sequences of 1 to 97 words; each ends with its own number."""

    def __init__(self, count: int = COUNT) -> None:
        self.samples = [torch.tensor([*range(1, 1 + 13 * i % 97), 1000 + i]) for i in range(count)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def padded(samples: list[Any]) -> Any:
    return pad_sequence(samples, batch_first=True)


def numbers(batch: Any) -> list[int]:
    """Of the samples in a batch."""
    return [int(row.max()) - 1000 for row in batch]


@pytest.fixture
def reading() -> Iterator[Callable[..., Reading]]:
    every: list[Seams] = []

    def start(plan: Plan = PLAN) -> Reading:
        for seams in every:
            seams.undo_all()
        every.append(Seams())
        made = Reading(every[-1])
        made.board.start(plan)
        made.board.switch(plan)
        return made

    yield start
    for seams in every:
        seams.undo_all()


Start = Callable[..., Reading]


def two_epochs(reader: Reading, seed: int = 11, dataset: Dataset[Any] | None = None, **options: Any) -> Any:
    torch.manual_seed(seed)
    data = dataset if dataset is not None else Texts()
    usual = {"shuffle": True, "collate_fn": padded, "batch_size": 4}
    return [reader.epoch(data, **{**usual, **options}) for _ in range(2)]


# ---- batches
LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 7), st.randoms(use_true_random=False))
def test_batches_hold_the_same_samples_in_the_same_sizes(lengths: list[int], size: int, draw: Any) -> None:
    order = list(range(len(lengths)))
    draw.shuffle(order)
    drawn = [order[start : start + size] for start in range(0, len(order), size)]
    made = regrouped(drawn, lengths)
    assert sorted(chain(*made)) == sorted(order)
    assert [len(batch) for batch in made] == [len(batch) for batch in drawn]
    assert columns_of(made, lengths) <= columns_of(drawn, lengths)
    assert regrouped(drawn, lengths) == made


def test_batches_are_of_like_length_and_in_random_order() -> None:
    lengths = [n % 10 for n in range(100)]
    drawn = [[(7 * (5 * b + k)) % 100 for k in range(5)] for b in range(20)]
    spreads = [sorted({lengths[index] for index in batch}) for batch in regrouped(drawn, lengths)]
    assert all(len(spread) == 1 for spread in spreads)
    assert [spread[0] for spread in spreads] != sorted(spread[0] for spread in spreads)


def test_a_smaller_last_batch_stays_as_it_was_drawn() -> None:
    assert regrouped([[0, 1], [2, 3], [4]], [5, 1, 5, 1, 9])[-1] == [4]


def test_samples_of_no_known_length_are_left_as_they_are_drawn() -> None:
    grouping = Grouping([1, 2], together=2)
    assert list(GroupedBatches([[1, 0], [5, 1]], grouping)) == [[1, 0], [5, 1]]
    assert "IndexError" in grouping.why_not
    assert grouping.batches == 0


def test_what_is_asked_of_batches_is_answered_by_the_scripts_own() -> None:
    own = BatchSampler(RandomSampler(range(10)), 3, drop_last=True)
    made = GroupedBatches(own, Grouping(list(range(10)), 4))
    assert (len(made), made.batch_size, made.drop_last, made.sampler) == (3, 3, True, own.sampler)


# ---- epochs
OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": dict,
    "the last dropped": lambda: {"drop_last": True},
    "by a generator": lambda: {"generator": torch.Generator().manual_seed(5)},
    "workers": lambda: {"num_workers": 2},
    "workers that stay": lambda: {"num_workers": 2, "persistent_workers": True},
    "a part of the data": lambda: {"shuffle": False, "sampler": SubsetRandomSampler(range(0, COUNT, 2))},
}


@pytest.mark.parametrize("name", cases(OPTIONS, ("shuffled", "workers")))
def test_each_epoch_has_each_sample_as_often_as_it_was_drawn(reading: Start, name: str) -> None:
    reader = reading(BASELINE)
    expected = two_epochs(reader, **OPTIONS[name]())
    grouped = reading()
    found = two_epochs(grouped, **OPTIONS[name]())
    assert found[0] is not found[1]
    for ours, theirs in zip(found, expected, strict=True):
        assert sorted(chain(*map(numbers, ours))) == sorted(chain(*map(numbers, theirs)))
        assert [len(batch) for batch in ours] == [len(batch) for batch in theirs]
        assert sum(batch.numel() for batch in ours) < 0.8 * sum(batch.numel() for batch in theirs)
    assert list(map(numbers, found[0])) != list(map(numbers, found[1]))
    proof = grouped.proof()
    assert proof.effective, proof.evidence
    assert proof.evidence.startswith(
        f"{sum(map(len, found))} batches were made of sequences of similar length"
    )


def test_the_same_seed_gives_the_same_batches_and_leaves_the_streams_where_they_were(reading: Start) -> None:
    reader = reading(BASELINE)
    two_epochs(reader)
    expected = torch.get_rng_state()
    first, second = (list(map(numbers, two_epochs(reading())[0])) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), expected)
    assert first == second
    assert first != list(map(numbers, two_epochs(reading(), seed=12)[0]))


def test_a_loader_that_is_left_early_has_batches_of_all_lengths(reading: Start) -> None:
    reading()
    torch.manual_seed(3)
    made = DataLoader(Texts(400), batch_size=4, shuffle=True, collate_fn=padded)
    widths = [batch.shape[1] for batch, _ in zip(made, range(12), strict=False)]
    assert min(widths) < 40 < max(widths)


@pytest.mark.parametrize("first", ["length_grouping", "loader_workers"])
def test_it_goes_with_other_workers(reading: Start, first: str) -> None:
    both = {"length_grouping": {}, "loader_workers": {"count": 1}}
    expected = list(map(numbers, two_epochs(reading())[1]))
    plan = Plan({name: both[name] for name in (first, *(set(both) - {first}))})
    reader = reading(plan)
    assert list(map(numbers, two_epochs(reader)[1])) == expected
    assert all(proof.effective for proof in reader.board.proofs())


def test_with_pad_trim_a_batch_is_as_wide_as_its_longest_text() -> None:
    widths: list[int] = []

    class Watched(TextClassifier):
        def forward(self, ids: Any) -> Any:
            widths.append(ids.shape[1])
            return super().forward(ids)

    trim = {"pad_trim": {"multiple": 1}}
    means = []
    for techniques in (trim, {"length_grouping": {}, **trim}):
        with workbench(PaddedTexts(longest=WIDTH - 4, count=320), make_model=Watched) as bench:
            bench.switchboard.start(Plan(techniques))
            bench.switchboard.switch(Plan(techniques))
            torch.manual_seed(5)
            bench.train(20)
            widths.clear()
            bench.train(10)
            means.append(sum(widths) / len(widths))
            assert all(proof.effective for proof in bench.switchboard.proofs())
    assert means[1] < 0.8 * means[0]


def test_a_process_that_starts_under_it_trains_by_its_seed() -> None:
    """Before the first step there is no proof."""
    told = []
    for _ in range(2):
        with workbench(PaddedTexts(count=80), make_model=TextClassifier) as bench:
            told.append(trained_from_the_start(bench, PLAN))
    assert told[0] == told[1]


# ---- what is left alone
class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(Texts().samples)


class OwnBatches(BatchSampler):
    pass


LEFT_ALONE: dict[str, tuple[Callable[[], Dataset[Any]], Callable[[Any], dict[str, Any]], str]] = {
    "in order": (Texts, lambda data: {"shuffle": False}, "is read in the order of SequentialSampler"),
    "a stream": (Stream, lambda data: {"shuffle": False}, "Stream is read as a stream, without indices"),
    "batches of the script's own": (
        Texts,
        lambda data: {
            "shuffle": False, "batch_size": 1, "batch_sampler": OwnBatches(RandomSampler(data), 4, False)
        },
        "batches of Texts are made by OwnBatches, a sampler of the script's own",
    ),
    "no batches": (
        Texts,
        lambda data: {"batch_size": None, "collate_fn": None},
        "torch makes no batches of Texts",
    ),
    "ranks": (
        Texts,
        lambda data: {"shuffle": False, "sampler": DistributedSampler(data, num_replicas=2, rank=0)},
        "Texts is shared out among ranks by a DistributedSampler",
    ),
    "few batches": (lambda: Texts(20), lambda data: {}, "Texts has only 5 batches"),
    "one length": (
        lambda: TensorDataset(torch.randn(80, 6)),
        lambda data: {"collate_fn": None},
        "the sequences of TensorDataset are all of one length",
    ),
    "about one length": (
        lambda: _near(Texts()),
        lambda data: {},
        "the sequences of Texts are about equally long",
    ),
}  # fmt: skip


def _near(texts: Texts) -> Texts:
    texts.samples = [torch.ones(200 + i % 2, dtype=torch.long) * (1000 + i) for i in range(COUNT)]
    return texts


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_it_is_left_alone_and_says_why(reading: Start, name: str) -> None:
    make, options, why = LEFT_ALONE[name]
    data = make()
    expected = two_epochs(reading(BASELINE), dataset=data, **options(data))
    reader = reading()
    found = two_epochs(reader, dataset=data, **options(data))
    assert repr(found) == repr(expected)
    assert not reader.proof().effective
    assert why in reader.proof().evidence


def test_evaluations_are_left_alone(reading: Start) -> None:
    expected = list(map(numbers, two_epochs(reading(BASELINE))[0]))
    reader = reading()
    with torch.no_grad():
        assert list(map(numbers, two_epochs(reader)[0])) == expected
    assert reader.proof().evidence.startswith("0 batches")


def test_ranks_are_left_alone(reading: Start) -> None:
    reader = reading()
    reader.training.averages_gradients = True
    two_epochs(reader)
    assert "each of several ranks" in reader.proof().evidence


# ---- what follows from facts
@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        ((), "the training reads from no DataLoader"),
        ((loader(training=False),), "the training reads from no DataLoader"),
        ((loader(iterable=True, samples=None),), "Pictures is read as a stream, without indices"),
        ((loader(batch_size=None),), "batches of Pictures are made by a sampler of the script's own"),
        ((loader(samples=100),), "Pictures has fewer than 8 batches"),
    ],
)
def test_it_is_refused_where_it_cannot_help(loaders: Any, reason: str) -> None:
    assert LengthGrouping.refuse(facts(loaders=loaders)) == [reason]


def test_it_applies_to_a_loader_of_many_batches() -> None:
    assert LengthGrouping.refuse(facts()) == []
    assert LengthGrouping.refuse(facts(loaders=(loader(), loader(iterable=True)))) == []


def test_it_is_refused_where_all_samples_that_were_seen_have_one_size() -> None:
    """Pictures, for example. Sequences that are all padded to one width are shortened by pad_trim."""
    alike = tuple(step(samples=n, elements=3072 * n) for n in (32, 32, 8) * 10)
    (reason,) = LengthGrouping.refuse(facts(steps=alike))
    assert "samples are of one size in all batches that were seen" in reason
    assert LengthGrouping.refuse(facts(steps=alike, padding=0.4)) == []
    assert LengthGrouping.refuse(facts(steps=alike, padding=None)) == []
    assert LengthGrouping.refuse(facts(steps=alike[:3])) == []
    assert LengthGrouping.refuse(facts(steps=(*alike, step(samples=8, elements=8000)))) == []
    assert LengthGrouping.refuse(facts(steps=(step(samples=8, elements=None),) * 30)) == []


def test_it_changes_the_training_and_no_tune_tries_it() -> None:
    assert LengthGrouping.risk_of({}, facts()) == "training"
    assert LengthGrouping.changes_training({})
    assert "--use" in LengthGrouping.not_tried


@pytest.mark.parametrize("settings", [{"batches": 1}, {"batches": True}, {"batches": 2.0}, {"width": 8}])
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="batches"):
        LengthGrouping.check(settings)
