"""Samples from a store are those that the data set would make, in every process that reads it and later."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate

from hasten.inside.samples import sample_stores, sampling_proof, stored_fetch
from hasten.inside.samples.columns import same_batch
from hasten.inside.samples.store_files import Store, Writer
from hasten.inside.samples.store_folders import locked
from hasten.inside.samples.worker_entry import data_set_of
from hasten.inside.seams import Seams
from hasten.inside.techniques.sample_store import SampleStore
from hasten.inside.training import NotApplicable
from hasten.records.observation import Processors, Step
from hasten.records.plan import Plan
from hasten.testing.byte_pictures import Compose

from ..patience import PATIENCE_SECONDS
from .made_up import facts, loader, machine
from .reading import HeldLists, Reading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
SIZE = 24
WORKERS = [pytest.param(0, marks=pytest.mark.thorough), 2]  # of the loader; a store is for these
PLAN = Plan({"sample_store": {}})


class Rows(Dataset[Any]):
    """Samples made of an array; each process notes in a file which it was asked for."""

    def __init__(self, notes: Path | None = None) -> None:
        self.rows = np.random.default_rng(5).random((SIZE, 3))
        self.notes = notes
        self.factor = 2.0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        if self.notes is not None:
            with open(os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as file:
                file.write(f"{os.getpid()} {index}\n")
            os.utime(self.notes, (0, 0))
        return torch.from_numpy(self.rows[index] * self.factor), index, {"name": f"row {index}"}


class Files(Dataset[Any]):
    """Samples made of files."""

    def __init__(self, folder: Path) -> None:
        self.paths = [str(folder / f"{n}.txt") for n in range(SIZE)]
        for n, path in enumerate(self.paths):
            Path(path).write_text(str(n))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index]) as file:
            return torch.tensor(int(file.read()))


class Process:
    """What one process under the technique is: seams, and a training that reads."""

    def __init__(self, folder: Path, available_bytes: int = 2**32, **settings: Any) -> None:
        self.seams = Seams()
        self.reading = Reading(self.seams, available_bytes)
        self.reading.training.sample_folder = str(folder)
        self.plan = Plan({"sample_store": settings})
        self.reading.board.start(self.plan)

    def epoch(self, dataset: Any, **options: Any) -> list[Any]:
        return self.reading.epoch(dataset, **options)

    def switch_on(self, dataset: Any, **options: Any) -> None:
        """The first batch was seen, and the store is filled before its step."""
        self.begin(dataset, **options)
        self.reading.board.switch(self.plan, prepare=True)

    def begin(self, dataset: Any, **options: Any) -> None:
        made = iter(DataLoader(dataset, **{"batch_size": 5, **options}))
        next(made)
        self.reading.hooks.loaders.batch_trained()

    def refusal(self, dataset: Any, **options: Any) -> str:
        with pytest.raises(NotApplicable) as refused:
            self.switch_on(dataset, **options)
        return str(refused.value)

    @property
    def evidence(self) -> str:
        return self.reading.proof().evidence

    @property
    def effective(self) -> bool:
        return self.reading.proof().effective

    @property
    def store(self) -> Store:
        (path,) = [path for path in Path(self.reading.training.sample_folder).iterdir() if path.is_dir()]
        found = Store.open(str(path))
        assert found is not None
        return found


Start = Callable[..., Process]


@pytest.fixture(autouse=True)
def _several_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the test runner itself has open."""
    monkeypatch.setattr(sample_stores, "shares_what_it_reads", lambda: False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "samples"


@pytest.fixture
def process(folder: Path) -> Iterator[Start]:
    made: list[Process] = []

    def start(**settings: Any) -> Process:
        for one in made:  # there is one at a time here
            one.seams.undo_all()
        made.append(Process(folder, **settings))
        return made[-1]

    yield start
    for one in made:
        one.seams.undo_all()


@pytest.fixture
def no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample of a pass is made again to be compared."""
    monkeypatch.setattr(stored_fetch.Reader, "_between_checks", 10**9)
    monkeypatch.setattr(stored_fetch.Reader, "check_first", lambda self: None)


def plain(dataset: Any, collate: Any = default_collate) -> list[Any]:
    """An epoch as a loader makes it, without a loader and so without our seams."""
    size = len(dataset)
    return [collate([dataset[i] for i in range(k, min(k + 5, size))]) for k in range(0, size, 5)]


def asked_for(notes: Path) -> int:
    return len(notes.read_text().splitlines()) if notes.exists() else 0


# ---- the same batches, by everybody
@pytest.mark.parametrize("workers", WORKERS)
def test_batches_and_random_streams_are_the_plain_loaders(process: Start, workers: int) -> None:
    dataset = Rows()

    def drawn() -> list[Any]:
        torch.manual_seed(11)
        random.seed(11)
        told: list[Any] = []
        for _ in range(2):
            told += list(DataLoader(dataset, batch_size=5, shuffle=True, num_workers=workers))
            told += [torch.get_rng_state(), list(random.getstate()[1])]
        return told

    theirs = drawn()
    now = process()
    now.switch_on(dataset)
    assert same_batch(drawn(), theirs)
    assert now.effective


@pytest.mark.parametrize("workers", WORKERS)
def test_samples_come_from_the_store(process: Start, no_checks: None, workers: int, tmp_path: Path) -> None:
    notes, now = tmp_path / "notes", process()
    dataset = Rows(notes)
    now.switch_on(dataset, num_workers=workers)
    before = asked_for(notes)
    assert same_batch(now.epoch(dataset, num_workers=workers), plain(Rows()))
    assert asked_for(notes) == before
    assert now.evidence.startswith(f"{SIZE} samples came from a store, 0 were made; 0 were compared")
    assert now.effective


def test_kept_workers_read_the_store(process: Start, no_checks: None) -> None:
    now, dataset = process(), Rows()
    made = DataLoader(dataset, batch_size=5, num_workers=1, persistent_workers=True)
    for _ in made:
        now.reading.hooks.loaders.batch_trained()
    now.reading.board.switch(PLAN, prepare=True)
    assert same_batch([*made, *made], [*plain(dataset), *plain(dataset)])
    assert now.evidence.startswith(f"{2 * SIZE} samples came from a store, 0 were made")


@pytest.mark.parametrize("workers", WORKERS)
def test_a_later_run_makes_no_sample_but_those_that_prove_it(
    process: Start, no_checks: None, workers: int, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    process().switch_on(Rows(notes))
    notes.unlink()
    later, dataset = process(), Rows(notes)
    later.switch_on(dataset, num_workers=workers)
    assert same_batch(later.epoch(dataset, num_workers=workers), plain(Rows()))
    assert asked_for(notes) == sample_stores.AFRESH
    assert ", 0 were made" in later.evidence


def test_other_loaders_and_evaluations_of_the_data_set_get_its_samples(process: Start) -> None:
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    with torch.no_grad():
        assert same_batch(now.epoch(dataset), plain(dataset))
    assert same_batch(tuple(now.epoch(dataset, batch_size=None)[7]), dataset[7])
    other = Subset(dataset, range(5))
    assert same_batch(now.epoch(other), plain(dataset)[:1])


def test_loader_workers_goes_with_it(seams: Seams, folder: Path, no_checks: None) -> None:
    plan = Plan({"loader_workers": {"count": 2}, "sample_store": {}})
    reading = Reading(seams)
    reading.training.sample_folder = str(folder)
    reading.board.start(plan)
    dataset = Rows()
    reading.epoch(dataset)
    reading.board.switch(plan, prepare=True)
    assert same_batch(reading.epoch(dataset), plain(dataset))
    assert reading.proof("sample_store").evidence.startswith(f"{SIZE} samples came from a store, 0 were")
    assert reading.proof("loader_workers").effective


@pytest.mark.parametrize(
    "names", [("sample_store", "persistent_workers"), ("persistent_workers", "sample_store")]
)
def test_workers_that_are_kept_by_hasten_read_it(
    seams: Seams, folder: Path, no_checks: None, names: tuple[str, ...]
) -> None:
    plan = Plan({name: {} for name in names})
    reading = Reading(seams)
    reading.training.sample_folder = str(folder)
    reading.board.start(plan)
    dataset = Rows()
    made = DataLoader(dataset, batch_size=5, num_workers=1)
    for _ in made:
        reading.hooks.loaders.batch_trained()
    reading.board.switch(plan, prepare=True)
    for _ in range(3):
        assert same_batch(list(made), plain(dataset))
    for name in names:
        assert reading.proof(name).effective, reading.proof(name).evidence
    assert ", 0 were made" in reading.proof("sample_store").evidence


def test_a_process_started_anew_is_served_where_it_can_import_hasten(process: Start, no_checks: None) -> None:
    now, dataset = process(), Rows()
    options = {"num_workers": 1, "multiprocessing_context": "spawn"}
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset, **options), plain(dataset))
    assert now.evidence.startswith(f"{SIZE} samples came from a store, 0 were made")


# ---- what scripts do to their samples and data sets
def test_a_collate_function_may_write_into_its_samples(process: Start) -> None:
    def collate(samples: list[Any]) -> Any:
        for row, _, _ in samples:
            row.mul_(3)
        return default_collate(samples)

    now, dataset = process(), Rows()
    now.switch_on(dataset)
    for workers in (0, 0, 2):
        ours = now.epoch(dataset, collate_fn=collate, num_workers=workers)
        assert same_batch(ours, plain(dataset, collate))
    assert now.effective


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("wrapped", [0, 1])
def test_an_attribute_set_on_the_data_set_ends_its_use(process: Start, workers: int, wrapped: int) -> None:
    inner = Rows()
    dataset: Any = Subset(inner, range(SIZE)) if wrapped else inner
    now = process()
    now.switch_on(dataset, num_workers=workers)
    inner.factor = 7.0
    assert same_batch(now.epoch(dataset, num_workers=workers), plain(dataset))
    assert not now.effective
    assert "was changed while training" in now.evidence


@pytest.mark.parametrize("workers", WORKERS)
def test_a_change_that_sets_no_attribute_is_found_in_one_of_the_passes(
    process: Start, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, dataset = process(), Hiding()
    now.switch_on(dataset, num_workers=workers)
    monkeypatch.setitem(_HIDDEN, "offset", 5.0)
    for _ in range(8):  # one sample in six is compared, on the average
        now.epoch(dataset, num_workers=workers)
    assert not now.effective
    assert "changed: the store was given up" in now.evidence
    assert same_batch(now.epoch(dataset, num_workers=workers), plain(dataset))
    assert not list(Path(now.reading.training.sample_folder).glob("*/header.json"))


def _doubling(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.factor = 4.0  # type: ignore[union-attr]


def test_a_worker_that_changes_its_data_set_makes_its_samples(process: Start) -> None:
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    ours = now.epoch(dataset, num_workers=1, worker_init_fn=_doubling)
    changed = Rows()
    changed.factor = 4.0
    assert same_batch(ours, plain(changed))


# ---- what forked processes share
class OneFile(Dataset[Any]):
    """Samples in one file, which is opened once: who reads one moves its offset for all forks."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b"".join(bytes([n]) * 4 for n in range(200)))
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> torch.Tensor:
        self.file.seek(index * 4)
        time.sleep(0.0002)
        return torch.tensor(list(self.file.read(4)))


def test_a_file_that_is_open_is_read_by_each_process_at_its_own_offset(
    process: Start, tmp_path: Path, no_checks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    now, dataset = process(), OneFile(tmp_path / "rows")
    now.begin(dataset)
    dataset.file.seek(7)
    now.reading.board.switch(now.plan, prepare=True)
    assert dataset.file.tell() == 7
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.evidence.startswith("200 samples came from a store")
    dataset.file.close()


def test_a_worker_takes_its_data_set_from_a_list_too() -> None:
    """As torch 2.15 hands it over."""
    dataset = Rows()
    assert data_set_of([dataset]) is data_set_of(dataset) is dataset


# ---- another store, or none
def test_another_attribute_argument_or_class_has_another_store(process: Start, folder: Path) -> None:
    process().switch_on(Rows())
    other = Rows()
    other.factor = 3.0
    now = process()
    now.switch_on(other)
    assert same_batch(now.epoch(other), plain(other))
    now = process()
    now.reading.training.made_of = lambda: "train.py --augment"
    now.switch_on(Rows())
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 3


def test_two_data_sets_that_cannot_be_told_apart_do_not_share_a_store(
    process: Start, no_checks: None
) -> None:
    now, one, other = process(), Rows(), Rows()
    now.switch_on(one)
    vars(other)["rows"] = one.rows
    for dataset in (one, other):
        assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.evidence.startswith(f"{SIZE} samples came from a store")


def test_a_sample_whose_file_changed_is_made_anew(process: Start, tmp_path: Path, no_checks: None) -> None:
    (tmp_path / "data").mkdir()
    now, dataset = process(), Files(tmp_path / "data")
    now.switch_on(dataset)
    Path(dataset.paths[9]).write_text("1234")
    assert torch.cat(now.epoch(dataset)).tolist() == [1234 if n == 9 else n for n in range(SIZE)]
    assert now.evidence.startswith(f"{SIZE - 1} samples came from a store, 1 were made")
    later = process()
    later.switch_on(dataset)  # which makes it again for the store
    assert torch.cat(later.epoch(dataset)).tolist() == [1234 if n == 9 else n for n in range(SIZE)]
    assert later.evidence.startswith(f"{SIZE} samples came from a store, 0 were made")


def test_a_store_whose_samples_are_others_now_is_begun_anew(
    process: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its samples depend on is seen nowhere but in them."""
    monkeypatch.setitem(_HIDDEN, "offset", 0.0)
    process().switch_on(Hiding())
    monkeypatch.setitem(_HIDDEN, "offset", 5.0)
    now, dataset = process(), Hiding()
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.evidence.startswith(f"{SIZE} samples came from a store")
    assert len(stores_in(now)) == 1


def stores_in(now: Process) -> list[Path]:
    return [path for path in Path(now.reading.training.sample_folder).iterdir() if path.is_dir()]


# ---- what samples are made of, besides the data set
CUT = 20


class Cut(Dataset[Any]):
    """One sample in six is made of a global."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(min(index, CUT)))


def test_another_global_that_makes_few_samples_has_another_store(
    process: Start, no_checks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    process().switch_on(Cut())
    monkeypatch.setattr(sys.modules[__name__], "CUT", 22)
    monkeypatch.setattr(sample_stores, "AFRESH", 0)
    now, dataset = process(), Cut()
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert len(stores_in(now)) == 2


@pytest.mark.parametrize("workers", WORKERS)
def test_a_global_that_changes_while_training_ends_its_use(
    process: Start, no_checks: None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, dataset = process(), Cut()
    now.switch_on(dataset, num_workers=workers)
    monkeypatch.setattr(sys.modules[__name__], "CUT", 22)
    assert same_batch(now.epoch(dataset, num_workers=workers), plain(dataset))
    assert not now.effective
    assert "was changed while training" in now.evidence


# ---- samples that chance has made
class Failing(Dataset[Any]):
    """While there is no network, some samples are zeros."""

    def __init__(self, network: Path, failing: int = 3) -> None:
        self.network, self.failing = network, failing

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            if index % 7 < self.failing and not self.network.exists():
                raise ConnectionError("no network")
        except OSError:
            return torch.tensor(0)
        return torch.tensor(index)


def test_a_sample_in_whose_making_an_error_was_met_is_not_kept(
    process: Start, no_checks: None, tmp_path: Path
) -> None:
    network = tmp_path / "network"
    now, dataset = process(), Failing(network, failing=1)
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.evidence.startswith(f"{SIZE - 4} samples came from a store, 4 were made")
    assert "4 samples are made anew each time" in now.evidence
    network.touch()
    assert torch.cat(now.epoch(dataset)).tolist() == list(range(SIZE))


def test_a_data_set_that_always_meets_errors_is_told(
    process: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    now, dataset = process(), Failing(tmp_path / "none", failing=7)
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert "making its samples meets errors" in now.evidence
    assert not now.effective


class Falling(Dataset[Any]):
    """One sample is broken: another is drawn in its place."""

    broken = 10

    def __init__(self) -> None:
        self.values = [float(n) for n in range(SIZE)]

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.broken:
            return self[random.randrange(self.broken)]
        return torch.tensor(self.values[index])


@pytest.mark.parametrize("workers", WORKERS)
def test_a_sample_that_is_drawn_is_drawn_each_time(process: Start, no_checks: None, workers: int) -> None:
    """It is none of those that are looked at before any is kept."""
    dataset = Falling()

    def epochs() -> list[Any]:
        random.seed(5)
        torch.manual_seed(5)
        made = DataLoader(dataset, batch_size=5, num_workers=workers)
        return [torch.cat(list(made)).tolist() for _ in range(6)]

    theirs = epochs()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampling_proof, "_SAMPLES", 3)
        now = process()
        now.switch_on(dataset)
    assert epochs() == theirs
    assert len({epoch[10] for epoch in theirs}) > 1
    assert now.evidence.startswith(f"{6 * (SIZE - 1)} samples came from a store, 6 were made")


def test_samples_that_are_all_drawn_are_not_kept(process: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_proof, "_SAMPLES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    now, dataset = process(), Made(lambda n: torch.tensor(n and n + random.randrange(2)))
    now.switch_on(dataset)
    assert "draws random numbers" in now.evidence
    assert not now.effective
    assert not stores_in(now)


def test_what_comes_over_a_network_is_not_kept(process: Start) -> None:
    def ask(index: int) -> torch.Tensor:
        with socket.socket() as one:
            one.connect_ex(("127.0.0.1", 9))
        return torch.tensor(index)

    now, dataset = process(), Made(ask)
    now.switch_on(dataset)
    assert "its samples come over a network" in now.evidence
    assert not stores_in(now)


# ---- parts of a data set
def test_parts_that_are_drawn_anew_in_each_run_share_one_store(
    process: Start, no_checks: None, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    for number in range(4):
        now, whole = process(), Rows(notes)
        torch.manual_seed(number)
        first, second = torch.utils.data.random_split(whole, [18, 6])
        now.switch_on(first)
        ours, theirs = now.epoch(first), plain(Subset(Rows(), first.indices))
        assert same_batch(ours, theirs)
        assert now.evidence.startswith("18 samples came from a store, 0 were made")
        with torch.no_grad():
            assert same_batch(now.epoch(second), plain(Subset(Rows(), second.indices)))
    assert len(stores_in(now)) == 1
    assert not now.store.missing()


@pytest.mark.parametrize("workers", WORKERS)
def test_a_part_of_a_part_is_read_by_the_places_of_the_whole(
    process: Start, no_checks: None, workers: int
) -> None:
    def part() -> Any:
        return Subset(Subset(Transformed(), list(range(4, 20))), torch.arange(15, 3, -1))  # type: ignore[arg-type]

    options: dict[str, Any] = {"num_workers": workers, "shuffle": True}
    torch.manual_seed(3)
    theirs = list(DataLoader(part(), batch_size=5, **options))
    now, dataset = process(), part()
    now.switch_on(dataset, num_workers=workers)
    torch.manual_seed(3)
    assert same_batch(now.epoch(dataset, **options), theirs)
    assert now.evidence.startswith("12 samples came from a store, 0 were made")


def test_another_part_is_filled_when_the_training_comes_to_it(process: Start, no_checks: None) -> None:
    now, whole = process(), Rows()
    folds = [Subset(whole, range(12)), Subset(whole, range(12, SIZE))]
    now.switch_on(folds[0])
    assert same_batch(now.epoch(folds[0]), plain(folds[0]))
    for _ in range(2):
        assert same_batch(now.epoch(folds[1]), plain(folds[1]))
    assert now.evidence.startswith(f"{12 + 12} samples came from a store, 12 were made")


@pytest.mark.thorough
def test_a_data_set_that_is_another_in_each_run_does_not_fill_the_disk(process: Start) -> None:
    for number in range(8):
        now, dataset = process(), Rows()
        dataset.factor = float(number)
        now.switch_on(dataset)
        assert same_batch(now.epoch(dataset), plain(dataset))
    assert len(stores_in(now)) == 4
    first, again = process(), Rows()
    again.factor = 7.0
    first.switch_on(again)
    for number in range(10, 18):
        now, dataset = process(), Rows()
        dataset.factor = float(number)
        now.switch_on(dataset)
    assert len(stores_in(now)) == 5  # one was found again


# ---- files that cannot be seen
class PastPython(Dataset[Any]):
    """Reads its files as a library of C does."""

    def __init__(self, folder: Path) -> None:
        self.paths = [str(folder / f"{n}.bin") for n in range(SIZE)]
        for n, path in enumerate(self.paths):
            Path(path).write_bytes(bytes([n]) * 10_000)

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        file = ctypes.CDLL(None).open(self.paths[index].encode(), os.O_RDONLY)
        content = os.read(file, 20_000)
        os.close(file)
        return torch.tensor(content[0])


def apart(act: Callable[[], object]) -> str:
    """What ``act`` gives in a separate process, which has ended then."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        said: object = "it raised"
        try:
            said = act()
        finally:
            os.write(into, str(said).encode())
            os._exit(0)
    os.close(into)
    os.waitpid(child, 0)
    with open(out) as told:
        return told.read()


def filled(folder: Path, dataset: Any) -> str:
    now = Process(folder)
    now.switch_on(dataset)
    return now.evidence


def missing(folder: Path, dataset: Any, for_later: bool = True) -> int:
    now = Process(folder)
    now.reading.training.samples_for_later = for_later
    now.begin(dataset)
    return len(now.store.missing())


def test_samples_of_unseen_files_are_for_one_run_only(
    process: Start, folder: Path, tmp_path: Path, no_checks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_stores, "AFRESH", 0)
    (tmp_path / "data").mkdir()
    dataset = PastPython(tmp_path / "data")

    def run() -> object:
        told = filled(folder, dataset)
        return "for this run only" in told, apart(lambda: missing(folder, dataset))

    assert apart(run) == "(True, '0')"  # another process of the same run reads what is there
    Path(dataset.paths[9]).write_bytes(bytes([77]) * 10_000)
    later = process()
    later.switch_on(dataset)
    assert torch.cat(later.epoch(dataset)).tolist() == [77 if n == 9 else n for n in range(SIZE)]
    assert later.evidence.startswith(f"{SIZE} samples came from a store, 0 were made")


@pytest.mark.parametrize(("for_later", "left"), [(True, SIZE), (False, 0)])
def test_in_a_trial_they_are_for_its_later_workers(
    folder: Path, tmp_path: Path, for_later: bool, left: int
) -> None:
    (tmp_path / "data").mkdir()
    dataset = PastPython(tmp_path / "data")
    assert "for this run only" in apart(lambda: filled(folder, dataset))
    assert apart(lambda: missing(folder, dataset, for_later)) == str(left)


_HIDDEN = {"offset": 0.0}


class Hiding(Dataset[Any]):
    """What its samples depend on is named nowhere."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index + globals()["_HID" + "DEN"]["offset"])


def halved(value: Any) -> Any:
    return value / 2


def noisy(value: Any) -> Any:
    return value + torch.rand(3)


class Transformed(Dataset[Any]):
    def __init__(self, notes: Path | None = None, transforms: list[Any] | None = None) -> None:
        self.transform = Compose(transforms or [torch.from_numpy, halved, noisy])
        self.rows = Rows(notes)

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        row, label, _ = self.rows[index]
        return self.transform(row.numpy()), label


@pytest.mark.parametrize("workers", WORKERS)
def test_what_comes_before_a_random_transform_is_kept(
    process: Start, no_checks: None, workers: int, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    torch.manual_seed(3)
    options: dict[str, Any] = {"num_workers": workers, "shuffle": True}
    theirs = list(DataLoader(Transformed(), batch_size=5, **options))
    now, dataset = process(), Transformed(notes)
    now.switch_on(dataset, num_workers=workers)
    before = asked_for(notes)
    torch.manual_seed(3)
    assert same_batch(now.epoch(dataset, **options), theirs)
    assert asked_for(notes) == before
    assert now.effective
    later = process()
    again = Transformed(notes)
    later.switch_on(again, num_workers=workers)
    torch.manual_seed(3)
    assert same_batch(later.epoch(again, **options), theirs)


# ---- two processes
class Slow(Rows):
    """Making a sample after the first takes as long as a file says."""

    def __init__(self, go: Path) -> None:
        super().__init__()
        self.go = go
        self.slow = False

    def __getitem__(self, index: int) -> Any:
        if _HIDDEN.get("slow") and index >= 6:
            until = time.monotonic() + PATIENCE_SECONDS
            while not self.go.exists() and time.monotonic() < until:
                time.sleep(0.005)
        return super().__getitem__(index)


def begun(folder: Path, go: Path) -> tuple[int, str]:
    """A separate process that has begun to fill a store, and waits for ``go``; its number and the store."""
    child = os.fork()
    if not child:
        try:
            now, dataset = Process(folder), Slow(go)
            next(iter(DataLoader(dataset, batch_size=5)))
            now.reading.hooks.loaders.batch_trained()
            _HIDDEN["slow"] = 1.0
            now.reading.board.switch(PLAN, prepare=True)
        finally:
            os._exit(0)
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for path in folder.glob("*/header.json"):
            store = Store.open(str(path.parent))
            if store is not None and len(store.missing()) < SIZE:
                return child, store.path
        time.sleep(0.01)
    raise AssertionError("it did not begin")


def test_a_second_process_reads_what_is_there_and_does_not_wait(
    process: Start, folder: Path, tmp_path: Path, no_checks: None
) -> None:
    go = tmp_path / "go"
    child, path = begun(folder, go)
    try:
        now, dataset = process(), Slow(go)
        now.switch_on(dataset)
        store = now.store
        assert store.missing()
        assert same_batch(now.epoch(dataset), plain(dataset))
        assert now.effective
        with locked(path) as alone:
            assert not alone
    finally:
        go.touch()
        os.waitpid(child, 0)
    assert not store.missing()
    assert same_batch(now.epoch(dataset), plain(dataset))


def test_a_process_killed_while_it_fills_leaves_whole_samples(
    process: Start, folder: Path, tmp_path: Path, no_checks: None
) -> None:
    child, path = begun(folder, tmp_path / "go")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (tmp_path / "go").touch()
    until = time.monotonic() + PATIENCE_SECONDS
    alone = False
    while not alone and time.monotonic() < until:  # its children end as they see that it has gone
        with locked(path) as alone:
            pass
    left = Store.open(path)
    assert left is not None
    assert left.missing()
    later, dataset = process(), Slow(tmp_path / "go")
    later.switch_on(dataset)
    assert later.store.path == path
    assert not later.store.missing()
    assert same_batch(later.epoch(dataset), plain(dataset))
    assert later.evidence.startswith(f"{SIZE} samples came from a store, 0 were made")


@pytest.mark.parametrize("name", ["index", "data-0", "data-1"])
def test_bytes_that_are_not_as_they_were_written_are_no_samples(process: Start, name: str) -> None:
    process().switch_on(Rows())
    now, dataset = process(), Rows()
    path = Path(now.store.path, name)
    if not path.exists():
        pytest.skip("one CPU fills it alone")
    content = bytearray(path.read_bytes())
    for at in range(0, len(content), 7):
        content[at] ^= 0x55
    path.write_bytes(content)
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))


def test_a_file_that_is_cut_short_while_it_is_read_ends_nothing(process: Start) -> None:
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    for path in Path(now.store.path).iterdir():
        os.truncate(path, 10)
    for workers in (0, 2):
        assert same_batch(now.epoch(dataset, num_workers=workers), plain(dataset))


def test_a_store_that_is_removed_is_read_no_longer(process: Start) -> None:
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    now.store.drop()
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert "the store was removed" in now.evidence


# ---- room
def test_a_full_disk_drops_the_store_and_the_training_goes_on(
    process: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Writer, index: int, *args: Any) -> bool:
        if index > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, index, *args)

    write = Writer.write
    monkeypatch.setattr(Writer, "write", full)
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert not now.effective
    assert "the store was dropped: the disk is full" in now.evidence
    assert not [path for path in folder.iterdir() if path.is_dir()]


def test_a_disk_that_really_is_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", str(small)]
    if os.geteuid() or subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    now = None
    try:
        (small / "samples").mkdir(mode=0o700)
        now = Process(small / "samples", disk_share=1.0)
        dataset = Rows()
        now.begin(dataset)
        with suppress(OSError), open(small / "others", "wb", buffering=0) as others:
            while others.write(bytes(1024)):
                pass
        now.reading.board.switch(PLAN, prepare=True)
        assert same_batch(now.epoch(dataset), plain(dataset))
        assert not now.effective
        assert "the store was dropped: the disk is full" in now.evidence
    finally:
        if now is not None:
            now.seams.undo_all()
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_what_is_too_large_is_told_with_its_numbers(process: Start) -> None:
    assert "more than 0% of what is free on the disk" in process(disk_share=1e-9).refusal(Rows())
    assert "GiB of memory that are free" in process(available_bytes=1000).refusal(Rows())


def test_older_stores_make_room(process: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process().switch_on(Rows())
    other = Rows()
    other.factor = 3.0
    monkeypatch.setattr(sample_stores.SampleStores, "_limit", lambda self: 20_000)
    now = process()
    now.switch_on(other)
    assert now.effective is False  # nothing was read yet
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 1


# ---- whose files
def test_links_and_files_that_others_may_write_are_not_used(process: Start, tmp_path: Path) -> None:
    process().switch_on(Rows())
    now, dataset = process(), Rows()
    index = Path(now.store.path, "index")
    kept = index.rename(tmp_path / "elsewhere")
    index.symlink_to(kept)
    assert Store.open(str(index.parent)) is None
    index.unlink()
    kept.rename(index)
    assert Store.open(str(index.parent)) is not None
    index.chmod(0o622)
    assert Store.open(str(index.parent)) is None
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))


def test_files_are_for_this_user_alone(process: Start, folder: Path) -> None:
    process().switch_on(Rows())
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


# ---- what is refused as it is met
@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (lambda n: {1, n}, "set"),
        (lambda n: torch.ones(2, requires_grad=True), "with a gradient"),
        (lambda n: np.array([None]), "arrays of object"),
        (lambda n: torch.nn.Parameter(torch.ones(2), False), "not plain tensors"),
    ],
)
def test_other_kinds_of_samples_are_refused_by_name(process: Start, sample: Any, reason: str) -> None:
    assert reason in process().refusal(Made(sample), collate_fn=list)


def test_samples_that_the_data_set_holds_are_refused_where_a_function_of_the_scripts_gets_them(
    process: Start,
) -> None:
    assert "are objects that it holds itself" in process().refusal(HeldLists(8), collate_fn=list)


class Made(Dataset[Any]):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Made(lambda n: torch.rand(1)), "differs when it is drawn twice"),
        (Stream(), "as a stream"),
        (TensorDataset(torch.zeros(8, 2)), "in memory already"),
        (Made(lambda n: n // 0), "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_kept_is_told(process: Start, dataset: Any, reason: str) -> None:
    now = process()
    with pytest.raises((NotApplicable, ZeroDivisionError)) as refused:
        now.switch_on(dataset)
    assert reason in f"{type(refused.value).__name__} {refused.value}"


def test_what_cannot_be_known_again_is_told(process: Start) -> None:
    class Holding(Rows):
        def __init__(self) -> None:
            super().__init__()
            self.generator = (n for n in range(3))

    assert "holds generator objects" in process().refusal(Holding())


def test_without_a_folder_it_does_not_apply(seams: Seams) -> None:
    reading = Reading(seams)
    reading.board.start(PLAN)
    with pytest.raises(NotApplicable, match="no folder"):
        reading.board.switch(PLAN)


def test_children_that_fill_are_not_waited_for_without_end(process: Start) -> None:
    now, dataset = process(), Rows()
    now.reading.training.sample_seconds = 0.0
    now.switch_on(dataset)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.store.missing()
    assert "there was no more time" in now.evidence


# ---- refusals on paper
def test_a_tune_tries_it_where_samples_cannot_be_in_the_trainings_memory() -> None:
    from hasten.tuning.candidates import choose

    def tried(*loaders: Any) -> set[str]:
        found, _ = choose(facts(steps=(step(0.5),), loaders=loaders), [], "exact")
        return {one.technique.name for one in found} & {"sample_store", "dataset_in_ram"}

    assert tried(loader()) == {"dataset_in_ram"}
    assert tried(loader(workers=4)) == {"sample_store"}
    assert tried(loader(sample_bytes=15 * 2**20)) == {"sample_store"}


@pytest.mark.parametrize(
    ("workers", "waiting", "samples", "seconds"), [(0, 0.5, 400_000, "391"), (4, 0.1, 200_000, "1562")]
)
def test_what_takes_long_to_make_is_not_tried(
    workers: int, waiting: float, samples: int, seconds: str
) -> None:
    """By 16 processes: of 32 samples a step, each of a second."""
    many = loader(workers=workers, samples=samples, sample_bytes=10)
    (found,) = SampleStore.refuse(facts(steps=(step(waiting),), loaders=(many,)))
    assert found.startswith(f"making all samples once takes about {seconds} s")


def step(waiting: float) -> Step:
    phases = dict.fromkeys(("loss", "backward", "optimizer", "other"), 0.0)
    return Step(1.0, 32, 0, 0, {**phases, "data": waiting, "forward": 1.0 - waiting}, (0.0,), (0, 1, 1))


def test_it_applies_to_a_loader_whose_samples_are_waited_for() -> None:
    assert SampleStore.refuse(facts(loaders=(loader(workers=4),), steps=(step(0.5),))) == []
    random = loader(random="differs", transforms=True, workers=2)
    assert SampleStore.refuse(facts(loaders=(random,))) == []


def test_where_memory_can_hold_the_samples_that_does() -> None:
    (found,) = SampleStore.refuse(facts(steps=(step(0.5),)))
    assert "dataset_in_ram keeps them" in found


@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        ((), "no DataLoader"),
        ((loader(training=False),), "no DataLoader"),
        ((loader(iterable=True, samples=None),), "as a stream"),
        ((loader(default_fetch=False),), "sample by sample"),
        ((loader(in_memory=True),), "in memory already"),
        ((loader(random="sample 3 of Pictures differs"),), "sample 3 of Pictures differs"),
        ((loader(sample_bytes=40 * 2**20),), "39.1 GiB, more than 80% of the 32.0 GiB of memory"),
    ],
)
def test_what_it_refuses(loaders: tuple[Any, ...], reason: str) -> None:
    (found,) = SampleStore.refuse(facts(loaders=loaders))
    assert reason in found


# ---- what making them took
def test_making_samples_is_paid_by_one_process_for_all(process: Start) -> None:
    now = process()
    now.switch_on(Rows())
    first = now.reading.proof()
    assert first.lasting_seconds > first.paid_seconds > 0
    assert first.remark.startswith("samples are made once, ")
    later = process()
    later.switch_on(Rows())
    assert later.reading.proof().paid_seconds == 0
    assert later.reading.proof().lasting_seconds == first.lasting_seconds


def test_what_is_made_while_steps_are_taken_is_told_as_such(process: Start) -> None:
    now, whole = process(), Rows()
    folds = [Subset(whole, range(12)), Subset(whole, range(12, SIZE))]
    now.switch_on(folds[0])
    assert now.reading.board.seconds_in_steps() == 0
    now.epoch(folds[1])
    paid = now.reading.proof().paid_seconds
    now.epoch(folds[1])
    assert now.reading.board.seconds_in_steps() == now.reading.proof().paid_seconds - paid > 0


def test_a_store_is_read_by_the_next_of_equal_data_sets_once_the_first_is_gone(
    process: Start, no_checks: None
) -> None:
    now, dataset = process(), Rows()
    now.switch_on(dataset)
    for _ in range(3):
        del dataset
        dataset = Rows()
        assert same_batch(now.epoch(dataset), plain(dataset))
    assert now.evidence.startswith(f"{3 * SIZE} samples came from a store, 0 were made")


def test_the_first_sample_that_the_training_process_reads_is_compared(
    process: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children make samples with one thread: with several, the last bits may be others."""
    monkeypatch.setattr(stored_fetch.Reader, "_between_checks", 10**9)
    now, dataset = process(), Hiding()
    now.switch_on(dataset)
    monkeypatch.setitem(_HIDDEN, "offset", 1e-9)
    assert same_batch(now.epoch(dataset), plain(dataset))
    assert "sample 0 changed: the store was given up" in now.evidence


def test_a_training_that_does_not_wait_is_refused_with_the_share() -> None:
    (found,) = SampleStore.refuse(facts(steps=(step(0.015),)))
    assert "1.5% of a step" in found
    assert "macOS" in SampleStore.refuse_machine(machine(system="macOS"))[0]


@pytest.mark.parametrize(
    ("workers", "busy", "refused"), [(12, 7.0, False), (12, 3.0, False), (12, 1.0, True), (0, 0.0, True)]
)
def test_workers_that_could_not_keep_up_with_a_faster_training_are_worth_looking_at(
    workers: int, busy: float, refused: bool
) -> None:
    """On 16 cores: once steps are as fast as other techniques make them, these are waited for."""
    used = Processors(own=1.0, workers=busy)
    found = SampleStore.refuse(
        facts(steps=(step(0.015),), loaders=(loader(workers=workers),), processors=used, optimizers=())
    )
    assert any("no more could be gained" in reason for reason in found) is refused


@pytest.mark.parametrize(
    "settings", [{"disk_share": 0}, {"disk_share": 1.5}, {"disk_share": True}, {"gib": 3}]
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="disk_share"):
        SampleStore.check(settings)
