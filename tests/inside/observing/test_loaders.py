"""Which loaders feed the training, and how large their batches are."""

from __future__ import annotations

import weakref
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, SubsetRandomSampler, TensorDataset

from hasten.inside.observing import data_changes
from hasten.inside.observing.batches import batch_bytes, batch_length, elements_in, tensors_in
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.loaders import Loaders
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.samples.sample_caches import not_worth_keeping
from hasten.inside.seams import Seams
from hasten.inside.training import Training

ROWS = torch.zeros(6, 3)
BATCHES = {
    "a tensor": (ROWS, 6, 72),
    "a pair": ((ROWS, torch.zeros(6, dtype=torch.int64)), 6, 120),
    "a list": ([ROWS, ROWS], 6, 144),
    "a dict": ({"inputs": ROWS, "labels": ROWS[:, 0]}, 6, 96),
    "a mapping that is no dict": (UserDict(inputs=ROWS), 6, 72),
    "nested": ([{"ids": ["a"] * 6}, ({"x": ROWS},)], 6, 72),
    "a number before the rows": ((torch.tensor(0.5), ROWS), 6, 76),
    "no tensor": (["a", "b"], 0, 0),
    "numbers alone": (torch.tensor(1.0), 0, 4),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_a_batchs_length_and_bytes(kind: str) -> None:
    batch, length, size = BATCHES[kind]
    assert batch_length(batch) == length
    assert batch_bytes(batch) == size


def test_tensors_are_found_depth_first() -> None:
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    found = tensors_in([{"a": (a, "text"), "b": [b]}, c, None])
    assert [len(tensor) for tensor in found] == [1, 2, 3]


@pytest.fixture
def training() -> Training:
    return Training(torch, Seams(), available_bytes=0)


def pull(loaders: Loaders, loader: DataLoader[Any]) -> Any:
    """A batch, as it comes through the seam."""
    iterator = iter(loader)
    batch = next(iterator)
    loaders.batch_came(iterator, batch)
    return batch


def test_a_loader_is_described_at_its_first_batch(training: Training) -> None:
    loaders = Loaders(training)
    pull(loaders, DataLoader(TensorDataset(torch.zeros(10, 4)), batch_size=5))
    (record,) = loaders.records()
    assert (record.dataset, record.samples, record.batch_size) == ("TensorDataset", 10, 5)
    assert record.sample_bytes == 16


@pytest.mark.parametrize(
    ("inputs", "labels", "float64"),
    [
        (torch.zeros(10, 4, dtype=torch.float64), torch.zeros(10), True),
        (torch.zeros(10, 4), torch.zeros(10, dtype=torch.float64), False),
        (torch.zeros(10, 4), torch.zeros(10), False),
    ],
)
def test_batches_in_float64_are_told(
    training: Training, inputs: torch.Tensor, labels: torch.Tensor, float64: bool
) -> None:
    loaders = Loaders(training)
    pull(loaders, DataLoader(TensorDataset(inputs, labels), batch_size=5))
    assert [record.float64 for record in loaders.records()] == [float64]


def halves() -> list[DataLoader[Any]]:
    dataset = TensorDataset(torch.zeros(20, 4))
    one, other = torch.utils.data.random_split(dataset, [10, 10])
    return [DataLoader(one, batch_size=2, shuffle=True), DataLoader(other, batch_size=2)]


def parts_by_sampler() -> list[DataLoader[Any]]:
    dataset = TensorDataset(torch.zeros(20, 4))
    drawn = [SubsetRandomSampler(range(16)), SubsetRandomSampler(range(16, 20))]
    return [DataLoader(dataset, batch_size=2, sampler=one) for one in drawn]


@pytest.mark.parametrize("made", [halves, parts_by_sampler])
def test_a_validation_that_shares_the_data_set_has_a_loader_of_its_own(
    training: Training, made: Callable[[], list[DataLoader[Any]]]
) -> None:
    loaders = Loaders(training)
    for _ in range(3):
        train, validation = made()
        pull(loaders, train)
        loaders.batch_went_in(training_mode=True)
        pull(loaders, validation)
    assert [record.training for record in loaders.records()] == [True, False]


class Secretive(Sampler[int]):
    """Asking how many samples it draws may do anything: draw random numbers, or fail."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(4))

    def __len__(self) -> int:
        raise RuntimeError("not yet")


def test_a_samplers_own_length_is_not_asked_for(training: Training) -> None:
    loaders = Loaders(training)
    pull(loaders, DataLoader(TensorDataset(torch.zeros(20, 4)), batch_size=2, sampler=Secretive()))
    (record,) = loaders.records()
    assert record.samples == 20


def test_loaders_that_are_read_side_by_side_are_all_for_training(training: Training) -> None:
    """As for a few samples with labels and many without, or for pictures of two kinds."""
    loaders = Loaders(training)
    passes = [iter(DataLoader(TensorDataset(torch.zeros(n, 4)), batch_size=2)) for n in (10, 30)]
    for _ in range(2):
        for iterator in passes:
            loaders.batch_came(iterator, next(iterator))
        loaders.batch_went_in(training_mode=True)
    assert [(record.samples, record.training) for record in loaders.records()] == [(10, True), (30, True)]


@pytest.mark.parametrize(("batches", "steps"), [(1, 20), (3, 2)])
def test_what_is_read_between_steps_now_and_then_is_not(training: Training, batches: int, steps: int) -> None:
    """By a model that is not trained, such as an average of one: its passes are not seen."""
    loaders = Loaders(training)
    train = iter(DataLoader(TensorDataset(torch.zeros(200, 4)), batch_size=2))
    test = iter(DataLoader(TensorDataset(torch.zeros(90, 4)), batch_size=2))
    for _ in range(4):
        for _ in range(steps):
            loaders.batch_came(train, next(train))
            loaders.batch_went_in(training_mode=True)
        for _ in range(batches):
            loaders.batch_came(test, next(test))
    assert [(record.samples, record.training) for record in loaders.records()] == [(200, True), (90, False)]


def test_loaders_that_were_read_into_lists_are_not_read_by_the_training(training: Training) -> None:
    loaders = Loaders(training)
    for count in (10, 6):
        iterator = iter(DataLoader(TensorDataset(torch.zeros(count, 4)), batch_size=2))
        for batch in iterator:
            loaders.batch_came(iterator, batch)
        loaders.pass_ended(iterator)
    loaders.batch_went_in(training_mode=True)
    assert [record.training for record in loaders.records()] == [False, False]


def test_the_last_batch_of_a_pass_that_is_read_ahead_is_trained_on(training: Training) -> None:
    loaders = Loaders(training)
    iterator = iter(DataLoader(TensorDataset(torch.zeros(4, 4)), batch_size=2))
    loaders.batch_came(iterator, next(iterator))
    loaders.batch_came(iterator, next(iterator))
    loaders.batch_went_in(training_mode=True)
    loaders.pass_ended(iterator)
    loaders.batch_went_in(training_mode=True)
    assert [record.training for record in loaders.records()] == [True]


def test_only_the_loader_whose_batch_was_trained_on_is_for_training(training: Training) -> None:
    train, validation = TensorDataset(torch.zeros(10, 4)), TensorDataset(torch.zeros(6, 4))
    loaders = Loaders(training)
    pull(loaders, DataLoader(train, batch_size=2))
    loaders.batch_trained()
    pull(loaders, DataLoader(validation, batch_size=2))
    assert [(record.samples, record.training) for record in loaders.records()] == [(10, True), (6, False)]
    assert list(training.training_datasets) == [train]
    assert list(training.datasets) == [train, validation]


def test_a_batch_is_trained_on_once(training: Training) -> None:
    """A second forward pass on it tells nothing of the loader that is asked next."""
    loaders = Loaders(training)
    pull(loaders, DataLoader(TensorDataset(torch.zeros(10, 4)), batch_size=2))
    loaders.batch_trained()
    loaders.batch_trained()
    assert len(training.training_datasets) == 1


def test_training_without_a_loader_is_no_loaders(training: Training) -> None:
    loaders = Loaders(training)
    loaders.batch_trained()
    assert loaders.records() == ()


def test_a_loader_rebuilt_by_a_library_is_the_same_loader(training: Training) -> None:
    dataset = TensorDataset(torch.zeros(10, 4))
    loaders = Loaders(training)
    for _ in range(3):
        pull(loaders, DataLoader(dataset, batch_size=2))
    assert len(loaders.records()) == 1


def test_loaders_differ_by_length_and_batch_size(training: Training) -> None:
    loaders = Loaders(training)
    for length, size in ((10, 2), (10, 5), (20, 5)):
        pull(loaders, DataLoader(TensorDataset(torch.zeros(length, 4)), batch_size=size))
    assert [(r.samples, r.batch_size) for r in loaders.records()] == [(10, 2), (10, 5), (20, 5)]


def test_a_dataset_without_length_is_noted(training: Training) -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    loaders = Loaders(training)
    pull(loaders, DataLoader(Stream(), batch_size=2))
    loaders.batch_trained()
    (record,) = loaders.records()
    assert (record.samples, record.iterable, record.training) == (None, True, True)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (torch.zeros(3, 4), 12),
        ([torch.zeros(3, 4), torch.zeros(3)], 15),
        ({"ids": torch.zeros(2, 5), "mask": torch.zeros(2, 5), "name": ["a", "b"]}, 20),
        (([torch.zeros(2), torch.zeros(7)], None, 3), 9),
        (torch.nn.utils.rnn.pack_sequence([torch.zeros(4), torch.zeros(2)]), 6 + 4),
        ("none", 0),
    ],
)
def test_the_elements_of_a_batch(batch: object, found: int) -> None:
    assert elements_in(batch) == found


def pad(sequences: list[torch.Tensor]) -> torch.Tensor:
    """Time first, as ``pad_sequence`` does it by default."""
    return torch.nn.utils.rnn.pad_sequence(sequences)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_has_as_many_samples_as_were_asked_for(workers: int) -> None:
    """Also where time comes first, in an epoch's short last batch, and after an epoch given up midway."""
    seams = Seams()
    samples: list[int] = []
    observer = Observer(lambda step: None)
    observer.data_waited = lambda seconds, count, *_, **__: samples.append(count)  # type: ignore[method-assign]
    Hooks(Training(torch, seams, 2**32), observer, lambda: None).install()
    data = [torch.zeros(7 + index) for index in range(10)]
    loader: DataLoader[Any] = DataLoader(
        data,  # type: ignore[arg-type]
        batch_size=4,
        collate_fn=pad,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    try:
        next(iter(loader))
        for _ in loader:
            pass
    finally:
        seams.undo_all()
    assert samples == [4, 4, 4, 2]


@pytest.mark.parametrize(
    ("workers", "ahead", "last"),
    [
        (0, None, [False] * 8),
        (1, 2, [False] * 6 + [True] * 2),
        (2, 2, [False] * 4 + [True] * 4),
        (1, 9, [True] * 8),
    ],
)
def test_batches_after_which_workers_have_nothing_to_do(
    workers: int, ahead: int | None, last: list[bool]
) -> None:
    """In the second pass of the same workers, too."""
    seams, steps = Seams(), list[RawStep]()
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    observer = Observer(steps.append)
    Hooks(Training(torch, seams, 2**32), observer, lambda: None).install()
    data: Any = [torch.zeros(1) for _ in range(8)]
    loader: DataLoader[Any] = DataLoader(
        data, num_workers=workers, prefetch_factor=ahead, persistent_workers=workers > 0
    )
    try:
        for _ in range(2):
            for batch in loader:
                model(batch).sum().backward()
                optimizer.step()
    finally:
        seams.undo_all()
    assert [step.last_batches for step in steps if step.samples] == 2 * last


def test_samples_that_a_tensor_of_indices_asks_for_are_counted() -> None:
    """As samplers of episodes give them; pictures of one batch may come as a list."""
    seams = Seams()
    samples: list[int] = []
    observer = Observer(lambda step: None)
    observer.data_waited = lambda seconds, count, *_, **__: samples.append(count)  # type: ignore[method-assign]
    Hooks(Training(torch, seams, 2**32), observer, lambda: None).install()
    data: Any = [torch.zeros(3, 8, 8) for _ in range(10)]
    order: Any = torch.split(torch.arange(10), 4)
    try:
        for _ in DataLoader(data, batch_sampler=order, collate_fn=list):
            pass
    finally:
        seams.undo_all()
    assert samples == [4, 4, 2]


# ---- whether samples are the same each time
class Noisy(Dataset[torch.Tensor]):
    def __init__(self, noise: float) -> None:
        self.noise = noise

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index)) + (self.noise * torch.rand(2) if self.noise else 0)


@pytest.mark.parametrize(
    ("dataset", "trained", "found"),
    [
        (Noisy(0.0), True, ""),
        (Noisy(1.0), True, "sample 0 of Noisy differs when it is drawn twice (random augmentation?)"),
        (Noisy(1.0), False, "sample 0 of Noisy differs when it is drawn twice (random augmentation?)"),
        (TensorDataset(torch.zeros(8, 2)), True, ""),
    ],
)
def test_samples_are_looked_at_when_asked_to(dataset: Any, trained: bool, found: str) -> None:
    seams = Seams()
    hooks = Hooks(Training(torch, seams, 2**32), Observer(lambda step: None), lambda: None)
    hooks.install()
    try:
        for _ in DataLoader(dataset, batch_size=4):
            if trained:
                hooks.loaders.batch_trained()
    finally:
        seams.undo_all()
    stream = torch.get_rng_state()
    assert [record.random for record in hooks.loaders.records()] == [None]
    hooks.loaders.look_at_sampling()
    assert [record.random for record in hooks.loaders.records()] == [found]
    assert torch.equal(torch.get_rng_state(), stream)


# ---- several trainings
def test_data_sets_of_a_training_that_is_over_are_let_go_of() -> None:
    seams = Seams()
    training = Training(torch, seams, 2**32)
    hooks = Hooks(training, Observer(lambda step: None), lambda: None)
    hooks.install()
    model = torch.nn.Linear(4, 1)
    shared = TensorDataset(torch.zeros(10, 4))
    gone = []
    try:
        for fold in range(3):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            own = TensorDataset(torch.zeros(8 + 2 * fold, 4))
            gone.append(weakref.ref(own))
            for dataset in (own, shared, own):
                for (x,) in DataLoader(dataset, batch_size=2):
                    model(x).sum().backward()
                    optimizer.step()
            assert list(training.training_datasets) == [own, shared]
            del own, dataset
        assert [ref() is None for ref in gone] == [True, True, True]
        assert [record.samples for record in hooks.loaders.records()] == [8, 10, 12]
        assert [record.samples for record in hooks.loaders.records(since=hooks.loaders.begun - 1)] == [12]
    finally:
        seams.undo_all()


# ---- evaluation without no_grad()
@pytest.mark.parametrize(
    "training_mode", [True, False]
)  # some fine-tune a model that stays in evaluation mode
def test_an_evaluation_that_records_gradients_trains_on_nothing(training_mode: bool) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train, validation = (DataLoader(TensorDataset(torch.zeros(n, 4)), batch_size=2) for n in (8, 6))
    seams = Seams()
    hooks = Hooks(Training(torch, seams, 2**32), Observer(lambda step: None), lambda: None)
    hooks.install()
    try:
        for _ in range(2):
            model.eval()
            for (x,) in validation:
                model(x).sum().item()
            model.train(training_mode)
            for (x,) in train:
                model(x).sum().backward()
                optimizer.step()
    finally:
        seams.undo_all()
    assert {record.samples: record.training for record in hooks.loaders.records()} == {8: True, 6: False}


def test_a_loop_that_reads_ahead_trains_on_what_went_in() -> None:
    model = torch.nn.Linear(4, 1).eval()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    seams = Seams()
    hooks = Hooks(Training(torch, seams, 2**32), Observer(lambda step: None), lambda: None)
    hooks.install()
    try:
        batches = iter(DataLoader(TensorDataset(torch.zeros(6, 4)), batch_size=2))
        (x,) = next(batches)
        for following in batches:
            loss = model(x).sum()
            (x,) = following
            loss.backward()
            optimizer.step()
    finally:
        seams.undo_all()
    assert [record.training for record in hooks.loaders.records()] == [True]


class Negatives(Dataset[Any]):
    """Draws other samples for each epoch, if asked to."""

    def __init__(self) -> None:
        self.rows = [[0.0, 1.0], [2.0, 3.0]]
        self.read = 0

    def draw(self) -> None:
        self.rows = [[row[0], row[1] + 1] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_a_data_set_that_the_script_changes_between_epochs_is_seen(
    training: Training, draws: bool, watched: bool
) -> None:
    loaders = Loaders(training, holds=watched)
    dataset = Negatives()
    for _ in range(3):
        pull(loaders, DataLoader(dataset, batch_size=2))
        if draws:
            dataset.draw()
    (record,) = loaders.records()
    assert record.changed == ("Negatives.rows" if draws and watched else "")


@pytest.mark.parametrize(
    ("draws_first", "passes", "changed"), [(True, 1, "Negatives.rows"), (True, 2, ""), (False, 1, "")]
)
def test_what_is_changed_before_the_first_pass_is_seen_until_a_second_one_tells(
    draws_first: bool, passes: int, changed: str
) -> None:
    seams = Seams()
    hooks = Hooks(Training(torch, seams, 2**32), Observer(lambda step: None), lambda: None, closely=True)
    hooks.install()
    dataset = Negatives()
    loader = DataLoader(dataset, batch_size=2)
    if draws_first:
        dataset.draw()
    for _ in range(passes):
        next(iter(loader))
    seams.undo_all()
    (record,) = hooks.loaders.records()
    assert (record.changed_at_first, record.changed) == (changed, "")
    assert ("no second epoch was seen" in not_worth_keeping(record)) == bool(changed)


def test_a_data_set_is_looked_at_in_the_first_passes_alone(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes milliseconds, and some loops begin a pass in every step."""
    looked: list[object] = []

    def look(dataset: object, lenient: bool) -> dict[str, int]:
        looked.append(dataset)
        return {}

    monkeypatch.setattr(data_changes, "visible_state", look)
    loaders, dataset = Loaders(training, holds=True), Negatives()
    loader = DataLoader(dataset, batch_size=2)
    for _ in range(30):
        pull(loaders, loader)
    assert looked == [dataset] * 8


@pytest.mark.parametrize("switches", [True, False])
def test_two_loaders_that_share_a_data_set_see_what_is_switched_between_their_passes(
    training: Training, switches: bool
) -> None:
    loaders = Loaders(training, holds=True)
    dataset = Negatives()
    passes = [
        (DataLoader(dataset, batch_size=2), dataset.rows),
        (DataLoader(dataset, batch_size=2), [[7.0, 7.0], [8.0, 8.0]]),
    ]
    for loader, rows in passes * 2:
        if switches:
            dataset.rows = rows
        pull(loaders, loader)
    assert {record.changed for record in loaders.records()} == {"Negatives.rows" if switches else ""}


def test_another_data_set_of_the_same_kind_is_no_change(training: Training) -> None:
    loaders = Loaders(training)
    for _ in range(2):
        dataset = Negatives()
        dataset.draw()
        pull(loaders, DataLoader(dataset, batch_size=2))
        dataset.draw()
    (record,) = loaders.records()
    assert record.changed == ""
