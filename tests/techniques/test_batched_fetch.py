"""Gathered batches are those that default_collate makes, bit for bit, or the dataset is asked."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate

from hasten.inside.samples.columns import (
    Columns,
    Uneven,
    gather,
    same_batch,
    tensors_behind,
)
from hasten.inside.seams import Seams
from hasten.inside.techniques.batched_fetch import BatchedFetch
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan

from ..thorough import in_turn
from .made_up import facts, loader, machine
from .reading import Reading

GATHERED, IN_RAM = Plan({"batched_fetch": {}}), Plan({"dataset_in_ram": {}})
SIZE = 24


def rows() -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    return TensorDataset(
        torch.randn(SIZE, 3, 4, generator=generator),
        torch.arange(SIZE),
        torch.rand(SIZE, generator=generator) > 0.5,
    )


class Samples(Dataset[Any]):
    """What ``make`` returns for each index."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < SIZE:
            raise IndexError(index)
        return self.make(index)


class Held(Dataset[Any]):
    """Rows of tensors, as most scripts write it."""

    def __init__(self) -> None:
        self.inputs, self.target, self.transform = *rows().tensors[:2], None

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        inputs, target = self.inputs[index], self.target[index]
        if self.transform:
            inputs = self.transform(inputs)
        return inputs, target


class HeldArrays(Held):
    def __init__(self) -> None:
        super().__init__()
        self.inputs: Any = np.arange(SIZE * 6, dtype=np.float32).reshape(SIZE, 2, 3) / 7
        self.target: Any = np.arange(SIZE) / 3


class Windows(Held):
    length = SIZE - 4

    def __init__(self) -> None:
        super().__init__()
        self.width = 3

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index : index + self.width], self.target[index + self.width].float()


class OfArrays(HeldArrays):
    def __init__(self) -> None:
        super().__init__()
        self.bytes: Any = np.arange(SIZE * 3, dtype=np.uint8).reshape(SIZE, 3)

    def __getitem__(self, index: int) -> Any:
        inputs = torch.tensor(self.inputs[index], dtype=torch.float64)
        target = torch.tensor(self.target[index])
        return (
            inputs,
            target,
            torch.from_numpy(self.bytes[index]).float(),
            torch.LongTensor(self.bytes[index]),
        )


class HeldAlone(Held):
    def __getitem__(self, index: int) -> Any:
        return self.inputs[index]


class HeldByName(Held):
    def __getitem__(self, index: int) -> Any:
        return {"target": self.target[index], "inputs": self.inputs[index]}


Pair = namedtuple("Pair", ["first", "second"])


def labelled(index: int) -> tuple[torch.Tensor, int]:
    return torch.full((2, 3), index / 7), index % 4


def picture(index: int) -> Any:
    """Rows, columns, channels."""
    return np.arange(24, dtype=np.float32).reshape(4, 2, 3) + index


TENSOR_DATASETS: dict[str, Any] = {
    "tensors": rows,
    "a script's own": Held,
    "of one tensor": HeldAlone,
    "by name": HeldByName,
    "of arrays": HeldArrays,
    "windows": Windows,
    "made of arrays": OfArrays,
    "a subset of these": lambda: Subset(Held(), range(3, 20)),
    "a subset": lambda: Subset(rows(), range(3, 20)),
    "a subset by a tensor": lambda: Subset(rows(), torch.randperm(SIZE)[:15]),  # type: ignore[arg-type]
    "a subset by an array": lambda: Subset(rows(), np.arange(2, 18)),  # type: ignore[arg-type]
    "a subset of a subset": lambda: Subset(Subset(rows(), range(3, 20)), [5, 1, 1, 9, 2, 0, -1]),
    "a split": lambda: torch.utils.data.random_split(rows(), [20, 4])[0],
    "bytes": lambda: TensorDataset(torch.arange(SIZE * 6, dtype=torch.uint8).view(SIZE, 6)),
    "half": lambda: TensorDataset(torch.randn(SIZE, 2).half(), torch.randn(SIZE, 2).bfloat16()),
    "complex": lambda: TensorDataset(torch.randn(SIZE, 2, dtype=torch.complex64)),
    "empty rows": lambda: TensorDataset(torch.zeros(SIZE, 0), torch.arange(SIZE)),
}
OTHERS = {
    "a tensor and a number": labelled,
    "a tensor": lambda i: torch.full((3,), i / 7, dtype=torch.float64),
    "a tensor without dimensions": lambda i: (torch.tensor(i), torch.tensor(i / 3)),
    "a number": lambda i: i / 7,
    "a flag": lambda i: (i % 2 == 0, i),
    "a list": lambda i: [torch.tensor([i]), i],
    "a dict": lambda i: {"x": torch.tensor([i / 3]), "more": {"y": i, "z": [i, i / 2]}},
    "an array": lambda i: (np.full((2, 2), i / 7), np.float32(i / 3)),
    "a picture with its channels first": lambda i: (torch.from_numpy(picture(i).transpose(2, 0, 1)), i),
    "an array with its channels first": lambda i: (picture(i).transpose(2, 0, 1), i),
    "a transposed tensor": lambda i: {"x": torch.full((4, 3), i / 7).t()},
    "one number many times": lambda i: (torch.tensor([i / 7]).expand(3), i),
    "numpy's integer": lambda i: (np.arange(3, dtype=np.int16) + i, np.int64(i)),
}


# ---- the same batches
@pytest.mark.parametrize("name", TENSOR_DATASETS)
@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_batches_of_tensors_are_the_plain_loaders(reading: Reading, name: str, batch_size: int) -> None:
    dataset = TENSOR_DATASETS[name]()
    theirs, ours = reading.under(GATHERED, dataset, batch_size=batch_size)
    assert same_batch(ours, theirs)
    assert reading.proof().effective
    assert reading.proof().evidence.endswith("gathered, 0 were not")


@pytest.mark.parametrize(("name", "wrapped"), in_turn(OTHERS, [False, True]))
def test_batches_of_cached_samples_are_the_plain_loaders(reading: Reading, name: str, wrapped: bool) -> None:
    dataset: Any = Samples(OTHERS[name])
    dataset = Subset(dataset, range(2, 19)) if wrapped else dataset
    theirs, ours = reading.under(GATHERED, dataset)
    assert same_batch(ours, theirs)
    assert reading.proof().evidence.endswith("gathered, 0 were not")


@settings(max_examples=150)
@given(
    shape=st.lists(st.integers(0, 3), max_size=4),
    kind=st.sampled_from([torch.float32, torch.int64, torch.bool, torch.uint8]),
    indices=st.lists(st.integers(0, 5), min_size=1, max_size=8),
)
def test_rows_of_any_shape_are_gathered_as_they_are_stacked(
    shape: list[int], kind: torch.dtype, indices: list[int]
) -> None:
    """Strides too: dimensions of size 1 leave them open."""
    tensor = (torch.rand(6, *shape) * 5).to(kind)
    found = gather(torch, [tensor], indices)
    assert found is not None
    assert same_batch(found[0], default_collate([tensor[i] for i in indices]))
    samples = [tensor[i].clone() for i in range(6)]
    assert same_batch(Columns(torch, samples).batch(indices), default_collate([samples[i] for i in indices]))


def test_a_batch_is_fresh_memory(reading: Reading) -> None:
    dataset = rows()
    before = [tensor.clone() for tensor in dataset.tensors]
    reading.under(GATHERED, dataset)
    for batch in reading.epoch(dataset):
        for tensor in batch:
            tensor.zero_()
    assert all(map(torch.equal, dataset.tensors, before))
    other = Samples(labelled)
    reading.under(GATHERED, other)
    for inputs, _ in reading.epoch(other):
        inputs.zero_()
    assert same_batch(reading.epoch(other), list(DataLoader(other, batch_size=5)))


def test_tensors_that_the_script_writes_into_are_read_as_they_are(reading: Reading) -> None:
    dataset = rows()
    reading.under(GATHERED, dataset)
    dataset.tensors[0].mul_(3)
    assert torch.equal(torch.cat([batch[0] for batch in reading.epoch(dataset)]), dataset.tensors[0])
    dataset.tensors = (torch.zeros(SIZE, 2),)
    assert [len(batch) for batch in reading.epoch(dataset)] == [1] * 5


def test_a_transform_that_is_set_is_called(reading: Reading) -> None:
    dataset = Held()
    reading.under(GATHERED, dataset)
    dataset.transform = torch.neg  # type: ignore[assignment]
    assert torch.equal(torch.cat([batch[0] for batch in reading.epoch(dataset)]), -dataset.inputs)


@pytest.mark.parametrize(
    "array",
    [
        np.array([str(number) for number in range(SIZE)]),
        np.arange(SIZE * 2).reshape(2, SIZE).T,
        np.arange(SIZE)[::-1],
        np.arange(SIZE, dtype=">i4"),
        np.ma.masked_array(np.arange(SIZE)),
        np.zeros(SIZE, dtype=np.longdouble),
        np.array([[number] for number in range(SIZE)], dtype=object),
    ],
    ids=["text", "columns", "backwards", "foreign bytes", "masked", "long doubles", "objects"],
)
def test_arrays_whose_rows_are_not_copied_bytes_are_left_alone(array: Any) -> None:
    dataset = HeldArrays()
    dataset.target = array
    assert tensors_behind(torch, dataset, ()) is None


def test_windows_beyond_the_end_are_left_to_the_data_set(reading: Reading) -> None:
    """It makes a shorter one, for which torch has an error of its own."""
    dataset = Windows()
    reading.under(GATHERED, dataset)
    dataset.length = SIZE - 2
    with pytest.raises((RuntimeError, IndexError)):
        reading.epoch(dataset)
    held = tensors_behind(torch, dataset, [-1])
    assert held is not None
    assert held.batch(torch) is None


def test_what_only_an_array_becomes_is_not_made_of_a_tensor() -> None:
    """``torch.tensor`` of a tensor warns, and of one number ``FloatTensor`` makes so many."""
    dataset = OfArrays()
    assert tensors_behind(torch, dataset, ()) is not None
    dataset.bytes = np.arange(SIZE, dtype=np.uint8)
    assert tensors_behind(torch, dataset, ()) is None
    dataset = OfArrays()
    dataset.target = torch.arange(SIZE)
    assert tensors_behind(torch, dataset, ()) is None


def test_a_data_set_that_makes_whole_batches_is_left_alone() -> None:
    class Whole(Held):
        def __getitems__(self, indices: list[int]) -> Any:
            return [(self.inputs[0], self.target[0]) for _ in indices]

    assert tensors_behind(torch, Held(), ()) is not None
    assert tensors_behind(torch, Whole(), ()) is None


def test_other_data_sets_are_asked_for_nothing() -> None:
    class Strange(Samples):
        def __getattr__(self, name: str) -> Any:
            raise ValueError(name)

    assert tensors_behind(torch, Strange(labelled), ()) is None
    assert tensors_behind(torch, iter([1]), ()) is None


def test_an_array_that_nobody_may_write_into_is_left_alone() -> None:
    dataset = HeldArrays()
    assert tensors_behind(torch, dataset, ()) is not None
    dataset.target.flags.writeable = False
    assert tensors_behind(torch, dataset, ()) is None


def test_another_data_set_in_each_epoch_is_gathered_from(reading: Reading) -> None:
    """As where each has negatives of its own: nothing is kept, and nothing is made before."""
    reading.under(GATHERED, Held())
    for _ in range(2):
        dataset = Held()
        assert torch.equal(torch.cat([batch[0] for batch in reading.epoch(dataset)]), dataset.inputs)
    assert reading.proof().evidence == "20 batches were gathered, 0 were not"


def test_an_attribute_that_is_set_empties_what_was_laid_side_by_side(reading: Reading) -> None:
    dataset = Samples(labelled)
    reading.under(GATHERED, dataset)
    dataset.make = OTHERS["a dict"]
    found = [reading.epoch(dataset), reading.epoch(dataset)]
    expected = [default_collate([dataset[i] for i in range(k, min(k + 5, SIZE))]) for k in range(0, SIZE, 5)]
    assert same_batch(found, [expected, expected])


def test_a_change_in_place_is_found_and_all_is_drawn_again(reading: Reading) -> None:
    held = torch.zeros(SIZE, 2)
    dataset = Samples(lambda index: held[index] * 2)
    reading.under(GATHERED, dataset)
    held += 1
    for _ in range(2):
        assert torch.equal(torch.cat(reading.epoch(dataset)), torch.full((SIZE, 2), 2.0))


# ---- in combination with dataset_in_ram
@pytest.mark.parametrize("names", [("dataset_in_ram", "batched_fetch"), ("batched_fetch", "dataset_in_ram")])
def test_both_read_from_one_cache(reading: Reading, names: tuple[str, str]) -> None:
    dataset = Samples(labelled)
    theirs, ours = reading.under(Plan({name: {} for name in names}), dataset)
    assert same_batch(ours, theirs)
    assert reading.proof("batched_fetch").evidence == "10 batches were gathered, 0 were not"
    assert reading.proof("dataset_in_ram").evidence == f"{2 * SIZE} samples came from memory, 0 were made"


def test_without_a_full_cache_samples_are_made_and_kept(reading: Reading) -> None:
    dataset = Samples(labelled)
    theirs = reading.epoch(dataset)
    reading.board.switch(GATHERED)
    assert same_batch([reading.epoch(dataset), reading.epoch(dataset)], [theirs, theirs])
    assert reading.proof().evidence == "5 batches were gathered, 5 were not"


def test_when_it_is_off_nothing_of_it_is_left(reading: Reading) -> None:
    dataset = Samples(labelled)
    reading.under(GATHERED, dataset)
    reading.board.switch(BASELINE)
    assert not reading.training.batch_providers
    assert "__setattr__" not in vars(Samples)


# ---- what it leaves to the dataset
def not_gathered(reading: Reading, dataset: Any, **options: Any) -> None:
    theirs, ours = reading.under(GATHERED, dataset, **options)
    assert same_batch(ours, theirs)
    assert reading.proof().evidence.startswith("0 batches were gathered")
    assert not reading.proof().effective


def test_a_collate_function_of_the_scripts_makes_its_own_batches(reading: Reading) -> None:
    not_gathered(reading, rows(), collate_fn=lambda samples: [s[0] for s in samples])


def test_default_collate_that_learned_another_way_with_tensors(reading: Reading) -> None:
    table = torch.utils.data._utils.collate.default_collate_fn_map
    usual, dataset = table[torch.Tensor], TensorDataset(torch.ones(SIZE, 2))
    reading.epoch(dataset)
    reading.board.switch(GATHERED)
    table[torch.Tensor] = lambda batch, *, collate_fn_map=None: torch.stack(batch) + 1
    try:
        assert torch.equal(reading.epoch(dataset)[0][0], torch.full((5, 2), 2.0))
        assert not reading.proof().effective
    finally:
        table[torch.Tensor] = usual


def test_samples_that_differ_in_shape_are_collated_by_the_script(reading: Reading) -> None:
    dataset = Samples(lambda i: torch.full((1 + i // 5,), 1.0))
    reading.epoch(dataset)
    reading.board.switch(GATHERED, prepare=True)
    reading.epoch(dataset)
    assert "differ in shape" in reading.proof().evidence


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda i: (torch.zeros(2), f"row {i}"), id="text"),
        pytest.param(lambda i: (picture(i)[::-1], i), id="an array that is read backwards"),
        pytest.param(lambda i: torch.zeros(2).to_sparse(), id="sparse"),
        pytest.param(
            lambda i: torch.full((2, 3, 4, 5), i / 7).to(memory_format=torch.channels_last),
            id="batches that torch makes in the samples' own order",
        ),
        pytest.param(lambda i: (i, True) if i % 2 else (i, 1), id="flags and numbers"),
        pytest.param(lambda i: Pair(i, i), id="a named tuple"),
    ],
)
def test_samples_that_cannot_lie_side_by_side(make: Any) -> None:
    with pytest.raises(Uneven):
        Columns(torch, [make(i) for i in range(6)])


def test_an_index_out_of_range_is_the_datasets_to_complain_of(reading: Reading) -> None:
    dataset = rows()
    reading.under(GATHERED, dataset)
    assert same_batch(reading.epoch(dataset, sampler=[-1, -2]), [default_collate([dataset[-1], dataset[-2]])])
    with pytest.raises(IndexError, match="index 24 is out of bounds"):
        reading.epoch(dataset, sampler=[0, SIZE])


def test_a_flag_for_an_index_is_the_datasets_business(reading: Reading) -> None:
    dataset = rows()
    reading.under(GATHERED, dataset)
    found = reading.epoch(dataset, sampler=[True, True])
    assert same_batch(found, [default_collate([dataset[True], dataset[True]])])


def refusal(reading: Reading, dataset: Any, **options: Any) -> str:
    reading.epoch(dataset, **options)
    with pytest.raises(NotApplicable) as refused:
        reading.board.switch(GATHERED)
    assert not reading.training.batch_providers
    return str(refused.value)


def test_a_dataset_of_tensors_with_its_own_items_is_proven_first(reading: Reading) -> None:
    class Noisy(TensorDataset):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            return (self.tensors[0][index] + torch.rand(1),)

    assert "differs when it is drawn twice" in refusal(reading, Noisy(torch.zeros(SIZE, 2)))


def test_samples_with_gradients_keep_their_way(reading: Reading) -> None:
    dataset = TensorDataset(torch.zeros(SIZE, 2, requires_grad=True), torch.arange(SIZE))
    reading.epoch(dataset)
    reading.board.switch(GATHERED, prepare=True)
    for inputs, _ in reading.epoch(dataset):
        inputs.sum().backward()
    gradient = dataset.tensors[0].grad
    assert gradient is not None
    assert torch.equal(gradient, torch.ones(SIZE, 2))


def test_rows_of_strided_tensors_are_gathered_as_they_are_stacked(reading: Reading) -> None:
    images = torch.randn(SIZE, 3, 4, 4).to(memory_format=torch.channels_last)
    theirs, ours = reading.under(GATHERED, TensorDataset(images))
    assert same_batch(ours, theirs)
    assert reading.proof().effective


def test_more_than_the_memory_holds_is_refused(seams: Seams) -> None:
    assert "GiB" in refusal(Reading(seams, available_bytes=2 * SIZE * 600), Samples(labelled))


def test_room_for_the_samples_once_is_not_enough(seams: Seams) -> None:
    not_gathered(Reading(seams, available_bytes=4 * SIZE * 600), Samples(labelled))


def test_training_without_a_loader_is_no_case_for_it(reading: Reading) -> None:
    with pytest.raises(NotApplicable, match="no dataset is read"):
        reading.board.switch(GATHERED)


# ---- refusals on paper
def test_it_applies_to_a_loader_that_fits() -> None:
    assert BatchedFetch.refuse(facts()) == []


@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        pytest.param((), "no DataLoader", id="no loader"),
        pytest.param((loader(training=False),), "no DataLoader", id="a loader for validation alone"),
        pytest.param((loader(iterable=True, samples=None),), "stream", id="a stream"),
        pytest.param((loader(default_fetch=False),), "sample by sample", id="whole batches"),
        pytest.param((loader(default_collate=False),), "function of the script's own", id="own collate"),
        pytest.param((loader(workers=4),), "4 worker processes", id="workers"),
        pytest.param((loader(random="sample 0 differs"),), "sample 0 differs", id="random samples"),
        pytest.param((loader(sample_bytes=10 * 2**20),), "more than 40% of the 32.0 GiB", id="large"),
    ],
)
def test_what_it_refuses(loaders: tuple[Any, ...], reason: str) -> None:
    (found,) = BatchedFetch.refuse(facts(loaders=loaders))
    assert reason in found


def test_tensors_that_are_in_memory_need_no_more_of_it() -> None:
    small = machine(available_bytes=2**20)
    assert BatchedFetch.refuse(facts(small)) != []
    assert BatchedFetch.refuse(facts(small, loaders=(loader(in_memory=True),))) == []
