"""Samples from memory are those that the dataset would have made, or the cache is given up."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, default_collate

from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.samples import sample_caches
from hasten.inside.samples.sample_caches import PYTHON_BYTES, SampleCaches
from hasten.inside.samples.sample_room import MEMORY_SHARE
from hasten.inside.samples.sampling_proof import prove_deterministic
from hasten.inside.seams import Seams
from hasten.inside.switch import Switchboard
from hasten.inside.techniques.dataset_in_ram import DatasetInRam
from hasten.inside.training import NotApplicable, Training
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof

from .made_up import facts, loader, machine
from .reading import HeldLists

PLAN = Plan({"dataset_in_ram": {}})
SIZE = 24


class Rows(Dataset[Any]):
    """Samples made from an array, times a factor."""

    def __init__(self) -> None:
        self.rows = np.random.default_rng(5).random((SIZE, 3))
        self.factor = 2.0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        return torch.from_numpy(self.rows[index] * self.factor), int(index), f"row {index}"


_HIDDEN = {"offset": 0.0}


class Hiding(Rows):
    """What its samples depend on is named nowhere."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        row, label, name = super().__getitem__(index)
        return row + globals()["_HID" + "DEN"]["offset"], label, name


class Noted(Rows):
    """Notes in a file, which is not taken for one of the data set's own, which samples were made."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes = notes

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        file = os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b"+")
        os.close(file)
        return super().__getitem__(index)


class Augmented(Rows):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        row, label, name = super().__getitem__(index)
        return row + torch.rand(3, dtype=torch.float64), label, name


class Watched:
    """A script's reading of its data, and the technique that is switched on and off meanwhile."""

    def __init__(self, seams: Seams, available_bytes: int = 2**32) -> None:
        self.training = Training(torch, seams, available_bytes)
        self.board = Switchboard(self.training)
        self.hooks = Hooks(self.training, Observer(lambda step: None), lambda: None)
        self.hooks.install()

    def epoch(self, dataset: Dataset[Any], **options: Any) -> list[Any]:
        """All batches of one epoch of training on ``dataset``."""
        batches = []
        for batch in DataLoader(dataset, **{"batch_size": 5, **options}):
            self.hooks.loaders.batch_trained()
            batches.append(batch)
        return batches

    def caches(self) -> SampleCaches:
        return SampleCaches.of(self.training)

    def switch_on(self, dataset: Dataset[Any], prepare: bool = False) -> None:
        self.epoch(dataset)  # it must have been seen first
        self.board.switch(PLAN, prepare)

    def proof(self) -> Proof:
        (proof,) = self.board.proofs()
        return proof


@pytest.fixture
def watched(seams: Seams) -> Watched:
    return Watched(seams)


def plain(dataset: Any, order: Iterable[Any] | None = None, collate: Any = default_collate) -> list[Any]:
    """An epoch as a loader makes it, without a loader and so without our seams."""
    indices = list(range(len(dataset)) if order is None else order)
    return [collate([dataset[i] for i in indices[k : k + 5]]) for k in range(0, len(indices), 5)]


def same(a: Any, b: Any) -> bool:
    """Equal batches, bit for bit."""
    if torch.is_tensor(a):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


# ---- the same batches
def test_batches_and_random_streams_are_the_plain_loaders(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset)
    torch.manual_seed(11)
    ours = [watched.epoch(dataset, shuffle=True) for _ in range(3)]
    ours_stream = torch.get_rng_state()
    assert watched.proof().evidence.startswith(f"{2 * SIZE} samples came from memory, {SIZE} were made")
    watched.training.seams.undo_all()
    torch.manual_seed(11)
    assert same(ours, [list(DataLoader(dataset, batch_size=5, shuffle=True)) for _ in range(3)])
    assert torch.equal(ours_stream, torch.get_rng_state())


def test_samples_are_made_once(watched: Watched, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    dataset = Noted(notes)
    watched.switch_on(dataset, prepare=True)
    before = len(notes.read_bytes())
    for _ in range(3):
        watched.epoch(dataset)
    assert 0 < len(notes.read_bytes()) - before < SIZE  # spot checks
    assert watched.proof().effective


def test_indices_may_be_numpys(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    order = np.random.default_rng(0).permutation(SIZE)
    ours = watched.epoch(dataset, sampler=list(order))
    assert same(ours, plain(Rows(), order))
    assert watched.proof().evidence.startswith(f"{SIZE} samples came from memory, 0 were made")


class OfTensors:
    """A sampler that gives batches of indices as tensors, as those of episodes do."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.split(torch.arange(SIZE).flip(0), 5))


def test_indices_may_be_tensors(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    found = watched.epoch(dataset, batch_size=1, batch_sampler=OfTensors())
    assert same(found, plain(dataset, torch.arange(SIZE).flip(0)))
    assert watched.proof().evidence == f"{SIZE} samples came from memory, 0 were made"


class TellingItsIndex(Rows):
    def __getitem__(self, index: int) -> Any:
        return self.rows[index], str(type(index))


def test_samples_that_depend_on_the_indexs_type_are_made_by_the_dataset(watched: Watched) -> None:
    dataset = TellingItsIndex()
    watched.switch_on(dataset, prepare=True)
    found = watched.epoch(dataset, batch_size=1, batch_sampler=OfTensors())
    assert {name for _, names in found for name in names} == {str(torch.Tensor)}


def test_indices_that_are_no_numbers_are_the_datasets_own_business(watched: Watched) -> None:
    class ByName(Rows):
        def __getitem__(self, index: Any) -> tuple[torch.Tensor, int, str]:
            return super().__getitem__(int(index))

    dataset = ByName()
    watched.switch_on(dataset)
    names = [str(index) for index in range(SIZE)]
    assert same(watched.epoch(dataset, sampler=names), plain(Rows()))
    assert not watched.proof().effective


class Iterators:
    """A batch sampler that gives an iterator for each batch."""

    def __len__(self) -> int:
        return -(-SIZE // 5)

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, SIZE, 5):
            yield map(int, range(first, min(first + 5, SIZE)))


def test_batches_whose_indices_are_an_iterator_are_made_as_without_us(watched: Watched) -> None:
    watched.switch_on(Rows())
    assert same(watched.epoch(Rows(), batch_size=1, batch_sampler=Iterators()), plain(Rows()))


def test_a_batch_that_the_script_writes_into_is_no_sample(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    for batch in watched.epoch(dataset, batch_size=1):
        batch[0].zero_()
    assert same(watched.epoch(dataset), plain(Rows()))


def test_a_collate_function_of_the_scripts_may_write_into_its_samples(watched: Watched) -> None:
    def collate(samples: list[Any]) -> Any:
        for row, _, _ in samples:
            row.mul_(3)
        return default_collate(samples)

    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    for _ in range(3):
        assert same(watched.epoch(dataset, collate_fn=collate), plain(Rows(), collate=collate))
    assert watched.proof().effective


def test_what_a_collate_function_writes_into_the_data_sets_own_lists_is_there_in_the_next_epoch(
    watched: Watched,
) -> None:
    def collate(samples: list[Any]) -> Any:
        for sample in samples:
            sample.append(0.0)
        return torch.tensor(samples)

    watched.switch_on(Rows())
    dataset, expected = HeldLists(SIZE), HeldLists(SIZE)
    for _ in range(3):
        assert same(watched.epoch(dataset, collate_fn=collate), plain(expected, collate=collate))
    (cache,) = [cache for cache in watched.caches().caches if cache.dataset is dataset]
    assert (
        cache.stale == "samples of HeldLists are objects that it holds itself, which batches may write into"
    )


# ---- changes of the data
class Files(Rows):
    """A sample for each file in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        for index in range(SIZE):
            self.write(index, index)

    def write(self, index: int, label: int) -> None:
        np.save(self.folder / f"{index}.npy", np.float32(label))

    def __getitem__(self, index: int) -> Any:
        return self.rows[index], np.load(self.folder / f"{index}.npy")


@pytest.mark.parametrize("prepare", [False, True])
def test_files_that_the_script_writes_again_are_read_again(
    watched: Watched, tmp_path: Path, prepare: bool
) -> None:
    dataset = Files(tmp_path)
    watched.switch_on(dataset, prepare)
    watched.epoch(dataset)
    dataset.write(SIZE // 2, 100)
    assert same(watched.epoch(dataset), plain(dataset))
    assert same(watched.epoch(dataset), plain(dataset))
    assert watched.proof().effective


def test_a_data_set_whose_files_change_in_every_epoch_is_left_alone(watched: Watched, tmp_path: Path) -> None:
    dataset = Files(tmp_path)
    watched.switch_on(dataset)
    for number in range(5):
        dataset.write(3, 100 + number)
        assert same(watched.epoch(dataset), plain(dataset))
    assert f"{tmp_path}/3.npy was changed while training" in watched.proof().evidence


@pytest.mark.parametrize("wrapped", [0, 1, 2])
def test_an_attribute_set_on_the_dataset_empties_the_cache(watched: Watched, wrapped: int) -> None:
    inner = Rows()
    dataset: Dataset[Any] = inner
    for _ in range(wrapped):
        dataset = Subset(dataset, range(10))
    watched.switch_on(dataset, prepare=True)
    watched.epoch(dataset)
    inner.factor = 7.0
    ours = watched.epoch(dataset)
    assert same(ours, plain(dataset))
    assert watched.proof().effective


def test_other_indices_of_a_subset_empty_the_cache(watched: Watched) -> None:
    dataset = Subset(Rows(), range(10))
    watched.switch_on(dataset, prepare=True)
    dataset.indices = range(10, 20)
    assert [batch[1].tolist() for batch in watched.epoch(dataset)] == [
        [10, 11, 12, 13, 14],
        [15, 16, 17, 18, 19],
    ]


def test_an_attribute_of_another_dataset_of_the_class_changes_nothing(watched: Watched) -> None:
    dataset, other = Rows(), Rows()
    watched.switch_on(dataset, prepare=True)
    other.factor = 7.0
    watched.epoch(dataset)
    assert watched.proof().evidence.startswith(f"{SIZE} samples came from memory, 0 were made")


def test_a_class_is_as_before_when_the_technique_is_off(watched: Watched) -> None:
    dataset = Subset(Rows(), range(10))
    watched.switch_on(dataset)
    assert "__setattr__" in vars(Rows)
    assert "__setattr__" in vars(Subset)
    watched.board.switch(BASELINE)
    assert "__setattr__" not in vars(Rows)
    assert "__setattr__" not in vars(Subset)


def test_a_change_in_place_is_found_when_the_next_pass_begins(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    watched.epoch(dataset)
    dataset.rows[SIZE - 1] += 1
    for _ in range(2):
        assert same(watched.epoch(dataset), plain(dataset))
    assert watched.proof().effective


def test_what_changes_between_all_passes_is_no_longer_kept(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    for _ in range(5):
        dataset.rows[3] += 1
        assert same(watched.epoch(dataset), plain(dataset))
    assert not watched.proof().effective
    assert "Rows.rows was changed" in watched.proof().evidence


def test_an_invisible_change_is_found_and_the_cache_given_up(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Hiding()
    watched.switch_on(dataset, prepare=True)
    watched.epoch(dataset)
    monkeypatch.setitem(_HIDDEN, "offset", 1.0)
    ours = watched.epoch(dataset)
    proof = watched.proof()
    assert not proof.effective
    assert "changed while training" in proof.evidence
    truth = plain(dataset)
    assert same(ours[2:], truth[2:])  # found at the first spot check, after a quarter of the samples
    assert same(watched.epoch(dataset), truth)


def test_the_sample_that_betrays_a_change_is_given_as_it_is_now(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Hiding()
    watched.switch_on(dataset, prepare=True)
    monkeypatch.setitem(_HIDDEN, "offset", 1.0)
    checked = SIZE // 4 - 1  # the sixth sample asked for
    rows = torch.cat([batch[0] for batch in watched.epoch(dataset)])
    assert torch.equal(rows[checked], dataset[checked][0])
    assert not torch.equal(rows[checked - 1], dataset[checked - 1][0])


def test_augmentation_switched_on_in_mid_training_is_found(watched: Watched) -> None:
    class Later(Rows):
        augment = False

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
            row, label, name = super().__getitem__(index)
            return row + (torch.rand(1).item() if self.augment else 0), label, name

    dataset = Later()
    watched.switch_on(dataset, prepare=True)
    dataset.augment = True
    first, second, third = (watched.epoch(dataset) for _ in range(3))
    assert not watched.proof().effective
    assert not same(first[-1], second[-1])
    assert not same(second[0], third[0])


# ---- off and on again
def test_a_cache_is_kept_while_the_technique_is_off(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    watched.board.switch(BASELINE)
    watched.epoch(dataset)
    watched.board.switch(PLAN, prepare=True)
    assert not watched.proof().effective  # nothing was drawn since
    watched.epoch(dataset)
    assert watched.proof().evidence.startswith(f"{SIZE} samples came from memory, 0 were made")


@pytest.mark.parametrize("wrapped", [0, 1, 2])
def test_a_kept_cache_is_dropped_when_the_dataset_changed_meanwhile(watched: Watched, wrapped: int) -> None:
    inner = Rows()
    dataset: Dataset[Any] = inner
    for _ in range(wrapped):
        dataset = Subset(dataset, range(SIZE))
    watched.switch_on(dataset, prepare=True)
    watched.board.switch(BASELINE)
    inner.factor = 7.0
    watched.board.switch(PLAN)
    ours = watched.epoch(dataset)
    assert watched.proof().evidence.startswith(f"0 samples came from memory, {SIZE} were made")
    assert same(ours, plain(dataset))


def test_a_kept_cache_is_watched_again(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset, prepare=True)
    watched.board.switch(BASELINE)
    watched.board.switch(PLAN)
    dataset.factor = 7.0
    ours = watched.epoch(dataset)
    watched.board.switch(BASELINE)
    assert same(ours, plain(dataset))


def test_a_cache_that_was_given_up_is_not_kept(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Hiding()
    watched.switch_on(dataset, prepare=True)
    monkeypatch.setitem(_HIDDEN, "offset", 1.0)
    watched.epoch(dataset)
    watched.board.switch(BASELINE)
    watched.board.switch(PLAN)
    ours = watched.epoch(dataset)
    assert watched.proof().effective
    assert same(ours, plain(dataset))


# ---- what it does not do
def refusal(watched: Watched, dataset: Dataset[Any], **options: Any) -> str:
    watched.epoch(dataset, **options)
    with pytest.raises(NotApplicable) as refused:
        watched.board.switch(PLAN)
    assert not watched.training.fetch_providers
    return str(refused.value)


def test_random_augmentation_is_not_frozen(watched: Watched) -> None:
    assert "differs when it is drawn twice" in refusal(watched, Augmented())


class OneBroken(Rows):
    """One sample of many cannot be read, and another stands in for it: few looks do not meet it."""

    BROKEN = 1777

    def __len__(self) -> int:
        return 3000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        if index == self.BROKEN:
            index = int(torch.randint(1000, (1,)))
        return super().__getitem__(index % SIZE)


class Noisy(Rows):
    """Noise is added while ``noise`` is true."""

    noise = True

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, str]:
        row, label, name = super().__getitem__(index)
        return row + torch.rand(3) if self.noise else row, label, name


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The data sets whose samples are drawn again, from now on, to see whether they are the same."""
    asked: list[object] = []

    def counted(torch: Any, dataset: Any, length: int) -> Any:
        asked.append(dataset)
        return prove_deterministic(torch, dataset, length)

    monkeypatch.setattr(sample_caches, "prove_deterministic", counted)
    return asked


def test_what_was_found_of_a_dataset_is_not_asked_again(
    seams: Seams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another model comes the technique is switched on anew, and each fold has a Subset of its own."""
    asked = looked_at(monkeypatch)
    caches, dataset = SampleCaches.of(Training(torch, seams, 2**32)), Noisy()

    def found(one: Any) -> bool:
        caches.acquire("test")
        cache = caches.get(one)
        assert (cache is None) == any("random" in reason for reason in caches.reasons)
        caches.release("test")
        return cache is not None

    assert [found(dataset), found(dataset), found(Subset(dataset, range(9)))] == [False] * 3
    assert len(asked) == 1
    dataset.noise = False
    assert found(dataset)
    assert len(asked) == 2


def test_of_data_sets_that_come_and_go_those_are_looked_at_that_are_read_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Federated learning has one for each client: to look at 330 of them took 50 s of a run of 20 s."""
    asked = looked_at(monkeypatch)
    watched.switch_on(Rows())
    clients = [Rows() for _ in range(9)]
    for client in clients:
        assert same(watched.epoch(client), plain(Rows()))
    assert len(asked) == 4
    for _ in range(2):
        assert same(watched.epoch(clients[-1]), plain(Rows()))
    assert asked[4:] == clients[-1:]
    assert [cache.hits for cache in watched.caches().caches][-1] == SIZE


def test_a_dataset_that_changes_all_the_time_is_looked_at_twice(
    seams: Seams, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def disproved(torch: Any, dataset: Any, length: int) -> tuple[str, int]:
        asked.append(dataset)
        return "it draws random numbers", 0

    monkeypatch.setattr(sample_caches, "prove_deterministic", disproved)
    caches, dataset = SampleCaches.of(Training(torch, seams, 2**32)), Noisy()
    for number in range(4):
        dataset.factor = float(number)
        caches.acquire("test")
        assert caches.get(dataset) is None
        assert caches.reasons == ["it draws random numbers"]
        caches.release("test")
    assert len(asked) == 2


def test_a_sample_that_chance_makes_is_not_frozen(watched: Watched) -> None:
    """When all are made it is met: the streams are as before then, and nothing is kept."""
    dataset = OneBroken()
    watched.switch_on(dataset)
    before = torch.get_rng_state()
    watched.board.switch(BASELINE)
    with pytest.raises(NotApplicable, match="making some samples of OneBroken draws random numbers"):
        watched.board.switch(PLAN, prepare=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_one_that_is_made_when_it_is_asked_for_neither(watched: Watched) -> None:
    dataset = OneBroken()
    watched.switch_on(dataset)
    only = Subset(dataset, [dataset.BROKEN, 5])
    drawn = {float(watched.epoch(only, batch_size=2)[0][1][0]) for _ in range(20)}
    assert len(drawn) > 1


def test_a_dataset_that_makes_whole_batches_is_left_alone(watched: Watched) -> None:
    class Wholesale(Rows):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    assert "whole batches" in refusal(watched, Wholesale())


def test_a_stream_is_left_alone(watched: Watched) -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

    assert "has no length" in refusal(watched, Stream())


def test_training_without_a_loader_is_no_case_for_it(watched: Watched) -> None:
    with pytest.raises(NotApplicable, match="no dataset is read"):
        watched.board.switch(PLAN)


def test_more_than_the_memory_holds_is_refused(seams: Seams) -> None:
    watched = Watched(seams, available_bytes=2 * SIZE * 600)
    assert "GiB" in refusal(watched, Rows())


def test_memory_is_one_for_all_data_sets(seams: Seams) -> None:
    """As of cross-validation, whose parts are several."""
    watched = Watched(seams, available_bytes=int(2.5 * 1.5 * SIZE * (600 + 100)))
    first, second = Rows(), Rows()
    watched.switch_on(first, prepare=True)
    assert same(watched.epoch(second), plain(Rows()))
    assert watched.proof().evidence.startswith("0 samples came from memory")
    (reason,) = watched.caches().reasons
    assert "of other data sets, more than 40%" in reason


def test_what_the_script_drops_gives_its_memory_back(seams: Seams) -> None:
    watched = Watched(seams, available_bytes=int(2.5 * 1.5 * SIZE * (600 + 100)))
    for _ in range(4):
        dataset = Rows()
        watched.switch_on(dataset, prepare=True)
        assert same(watched.epoch(dataset), plain(Rows()))
        assert len(list(watched.caches().caches)) == 1
        gone = weakref.ref(dataset)
        del dataset
        assert gone() is None
    assert not list(watched.caches().caches)
    assert not watched.caches().reasons


def test_an_augmented_dataset_next_to_the_cached_one_is_still_drawn(watched: Watched) -> None:
    train, other = Rows(), Augmented()
    watched.switch_on(train, prepare=True)
    first, second = watched.epoch(other), watched.epoch(other)
    assert not same(first, second)
    watched.epoch(train)
    assert watched.proof().effective


def test_samples_without_automatic_batches_come_from_the_dataset(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset)
    ours = watched.epoch(dataset, batch_size=None)
    assert [sample[1] for sample in ours] == list(range(SIZE))
    assert not watched.proof().effective


def test_workers_of_the_loader_have_no_part_in_it(watched: Watched) -> None:
    dataset = Rows()
    watched.switch_on(dataset)
    ours = watched.epoch(dataset, num_workers=1)
    assert same(ours, plain(Rows()))
    assert not watched.proof().effective


# ---- refusals on paper
def test_it_applies_to_a_loader_that_fits() -> None:
    assert DatasetInRam.refuse(facts()) == []
    assert DatasetInRam.refuse(facts(loaders=(loader(random=""),))) == []
    in_part = loader(random="sample 0 differs", transforms=True)  # what comes before them may be kept
    assert DatasetInRam.refuse(facts(loaders=(in_part,))) == []


@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        pytest.param((), "no DataLoader", id="no loader"),
        pytest.param((loader(training=False),), "no DataLoader", id="a loader for validation alone"),
        pytest.param((loader(iterable=True, samples=None),), "stream", id="a stream"),
        pytest.param((loader(samples=None),), "stream", id="no length"),
        pytest.param((loader(default_fetch=False),), "sample by sample", id="whole batches"),
        pytest.param((loader(workers=4),), "4 worker processes", id="workers"),
        pytest.param((loader(random="sample 0 differs"),), "sample 0 differs", id="random samples"),
        pytest.param(
            (loader(sample_bytes=20 * 2**20),), "19.5 GiB, more than 40% of the 32.0 GiB", id="large"
        ),
    ],
)
def test_what_it_refuses(loaders: tuple[Any, ...], reason: str) -> None:
    (found,) = DatasetInRam.refuse(facts(loaders=loaders))
    assert reason in found


def test_a_data_set_of_a_training_that_is_over_makes_room_and_another_does_not(seams: Seams) -> None:
    each = SIZE * (3 * 8 + 8 + PYTHON_BYTES)
    watched = Watched(seams, available_bytes=int(1.5 * each / MEMORY_SHARE))
    first, second, third = Rows(), Rows(), Rows()
    caches = SampleCaches.of(watched.training)
    watched.switch_on(first)
    for dataset in (first, second):
        watched.epoch(dataset)
    assert [cache.dataset for cache in caches.caches] == [first]
    (reason,) = caches.reasons
    assert "all samples of Rows need 0.0 GiB in addition to the 0.0 GiB of other data sets" in reason
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    for _ in range(2):
        watched.epoch(third)
    assert [cache.dataset for cache in caches.caches] == [third]
    assert watched.proof().effective


def test_loaders_that_fit_alone_may_not_fit_together() -> None:
    large = loader(sample_bytes=10 * 2**20)
    assert DatasetInRam.refuse(facts(loaders=(large,))) == []
    (reason,) = DatasetInRam.refuse(facts(loaders=(large, replace(large, dataset="Others"))))
    assert "all samples of Pictures and Others need 19.5 GiB, more than 40%" in reason


def test_memory_is_what_is_free_on_this_machine() -> None:
    small = machine(available_bytes=2**20)
    assert DatasetInRam.refuse(facts(small)) != []


def test_only_loaders_of_the_training_count() -> None:
    assert DatasetInRam.refuse(facts(loaders=(loader(), loader(training=False, workers=2)))) == []
