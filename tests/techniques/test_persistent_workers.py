"""Workers that stay make what new ones would, bit for bit; where they could not, new ones are started."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from hasten.inside.samples.columns import same_batch
from hasten.inside.techniques.persistent_workers import PersistentWorkers
from hasten.records.plan import BASELINE, Plan
from hasten.records.whole_run import WatchedRun
from hasten.testing.technique_contract import trained_from_the_start
from hasten.testing.workbench import Pictures, workbench

from ..patience import PATIENCE_SECONDS
from ..thorough import cases
from .made_up import facts, loader, machine
from .reading import StartUnder

SIZE = 14
EPOCHS = 3
PLAN = Plan({"persistent_workers": {}})
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
pytestmark = linux_only
shift = 0.0  # a global that samples are made from


class Augmented(Dataset[Any]):
    """Draws from all global streams, and notes which process made a sample, and that worker's seed."""

    def __init__(self) -> None:
        self.scale = 1.0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        info = get_worker_info()
        told = [
            index * self.scale + shift,
            random.random(),
            numpy.random.rand(),
            random.gauss(0.0, 1.0),
            float(info.seed % 2**40) if info is not None else -1.0,
            float(torch.initial_seed() % 2**40),
        ]
        return torch.cat([torch.tensor(told, dtype=torch.float64), torch.rand(2)]), os.getpid()


@pytest.fixture
def started(started_under: StartUnder) -> StartUnder:
    return partial(started_under, PLAN)


Between = Callable[[int, Any], None]
"""What a script does between two epochs: (number of the epoch to come, dataset)."""


def drawn(made: DataLoader[Any], between: Between = lambda epoch, dataset: None, leave: int = 99) -> Any:
    """(what three epochs gave and where they left the streams, the processes that made each epoch)."""
    torch.manual_seed(8)
    random.seed(8)
    numpy.random.seed(8)
    told: list[Any] = []
    processes: list[set[int]] = []
    for epoch in range(EPOCHS):
        between(epoch, made.dataset)
        processes.append(set())
        for number, (samples, pids) in enumerate(made, 1):
            told += [samples, torch.rand(1)]
            processes[-1] |= set(pids.tolist())
            if number == leave:
                break
        told += [torch.get_rng_state(), torch.tensor(random.getstate()[1])]
        told += [made.generator.get_state()] if made.generator is not None else []
    return told, processes


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def seeding(number: int) -> None:
    """As tutorials have it."""
    seed = torch.initial_seed() % 2**32
    numpy.random.seed(seed)
    random.seed(seed + number)


def by_state(number: int) -> None:
    numpy.random.seed(int(numpy.random.get_state()[1][0]) + number)  # type: ignore[index]


LOADERS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": lambda: {"shuffle": True},
    "by a generator": lambda: {"shuffle": True, "generator": generator()},
    "with an init function": lambda: {"shuffle": True, "worker_init_fn": seeding},
    "by a generator, with an init function": lambda: {
        "shuffle": True, "generator": generator(), "worker_init_fn": by_state
    },
    "one worker, one batch ahead": lambda: {"shuffle": True, "num_workers": 1, "prefetch_factor": 1},
    "in order": lambda: {},
}  # fmt: skip
FEW = ("shuffled", "by a generator, with an init function")


def make(options: dict[str, Any], dataset: Dataset[Any] | None = None) -> DataLoader[Any]:
    return DataLoader(dataset or Augmented(), **{"batch_size": 4, "num_workers": 2, **options})


# ---- the same bits
@pytest.mark.parametrize("leave", [99, 1])
@pytest.mark.parametrize("name", cases(LOADERS, FEW))
def test_epochs_are_as_with_new_workers(started: StartUnder, name: str, leave: int) -> None:
    theirs, new = drawn(make(LOADERS[name]()), leave=leave)
    now = started()
    ours, kept = drawn(make(LOADERS[name]()), leave=leave)
    assert same_batch(ours, theirs)
    assert new[0].isdisjoint(new[1])
    assert len(set.union(*kept)) <= LOADERS[name]().get("num_workers", 2)
    assert now.proof().effective
    assert now.counted == EPOCHS - 1


def test_an_evaluation_between_two_epochs_keeps_its_workers_too(started: StartUnder) -> None:
    def both() -> list[Any]:
        torch.manual_seed(3)
        training, evaluation = make({"shuffle": True}), make({})
        told = []
        for _ in range(EPOCHS):
            told += [batch[0] for batch in training]
            with torch.no_grad():
                told += [batch[0] for batch in evaluation]
        return [*told, torch.get_rng_state()]

    theirs = both()
    now = started()
    assert same_batch(both(), theirs)
    assert now.counted == 2 * (EPOCHS - 1)


def test_two_readers_of_one_loader_do_not_disturb_each_other(started: StartUnder) -> None:
    def pairs() -> list[Any]:
        torch.manual_seed(3)
        made = make({})
        list(made)
        return [[a[0], b[0]] for a, b in zip(made, made, strict=True)]

    theirs = pairs()
    started()
    assert same_batch(pairs(), theirs)


# ---- what a new worker would see, and one that stayed would not
def set_attribute(epoch: int, dataset: Any) -> None:
    dataset.scale = float(epoch)


def set_global(epoch: int, dataset: Any) -> None:
    global shift
    shift = float(epoch)


class OfArrays(Augmented):
    def __init__(self) -> None:
        super().__init__()
        self.array = numpy.zeros((SIZE, 3))
        self.tensor = torch.zeros(SIZE)
        self.listed = [{"label": torch.zeros(1)} for _ in range(SIZE)]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sample, pid = super().__getitem__(index)
        sample[0] += self.array[index].sum() + self.tensor[index] + self.listed[index]["label"].item()
        return sample, pid


def write_array(epoch: int, dataset: Any) -> None:
    dataset.array[5, 1] = epoch


def write_tensor(epoch: int, dataset: Any) -> None:
    dataset.tensor[3] = float(epoch)


def write_listed(epoch: int, dataset: Any) -> None:
    dataset.listed[7]["label"] = torch.full((1,), float(epoch))


CHANGES: dict[str, tuple[Callable[[], Dataset[Any]], Between]] = {
    "an attribute": (Augmented, set_attribute),
    "a global": (Augmented, set_global),
    "an element of an array": (OfArrays, write_array),
    "an element of a tensor": (OfArrays, write_tensor),
    "a value in a dict in a list": (OfArrays, write_listed),
}


@pytest.mark.parametrize("name", cases(CHANGES, ("an attribute", "a global")))
def test_what_a_script_changes_between_epochs_is_seen(started: StartUnder, name: str) -> None:
    kind, change = CHANGES[name]
    theirs, _ = drawn(make({"shuffle": True}, kind()), change)
    now = started()
    ours, processes = drawn(make({"shuffle": True}, kind()), change)
    assert same_batch(ours, theirs)
    assert processes[0].isdisjoint(processes[1])
    assert not now.proof().effective
    assert "changed between two epochs" in now.proof().evidence


class Remembering(Augmented):
    """Keeps what it drew at random: a new worker would not know it."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.kept:
            self.kept[index] = super().__getitem__(index)
        return self.kept[index]


class OwnGenerator(Augmented):
    """Each new worker begins with the generator as the training process has it."""

    def __init__(self) -> None:
        super().__init__()
        self.own = numpy.random.default_rng(4)

    def __getitem__(self, index: int) -> Any:
        sample, pid = super().__getitem__(index)
        return sample + self.own.random(), pid


@pytest.mark.parametrize("kind", [Remembering, OwnGenerator])
def test_what_workers_change_in_themselves_is_seen(started: StartUnder, kind: type[Augmented]) -> None:
    theirs, _ = drawn(make({}, kind()))
    now = started()
    ours, processes = drawn(make({}, kind()))
    assert same_batch(ours, theirs)
    assert processes[0].isdisjoint(processes[1])
    assert now.counted == 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_workers_that_died_are_replaced(started: StartUnder) -> None:
    now = started()
    made = make({})
    first = {int(pid) for _, pids in made for pid in pids}
    deadline = time.monotonic() + PATIENCE_SECONDS
    with suppress(RuntimeError):  # torch tells of it wherever the main process is just then
        for pid in first:
            os.kill(pid, 9)
    with suppress(RuntimeError):
        while any(map(is_alive, first)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    second: set[int] = set()
    with suppress(RuntimeError):
        second |= {int(pid) for _, pids in made for pid in pids}
    assert second.isdisjoint(first)
    assert now.counted == 0


# ---- what it leaves alone
class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.zeros(1), os.getpid())] * 4)


def test_a_stream_has_new_workers_each_epoch(started: StartUnder) -> None:
    now = started()
    _, processes = drawn(DataLoader(Stream(), num_workers=1))
    assert processes[0].isdisjoint(processes[1])
    assert "as a stream" in now.proof().evidence


def test_loaders_without_workers_and_those_that_keep_theirs_are_left_alone(started: StartUnder) -> None:
    def read() -> list[Any]:
        return [drawn(make(own))[0][::5] for own in ({"num_workers": 0}, {"persistent_workers": True})]

    theirs = read()
    now = started()
    assert same_batch(read(), theirs)
    assert now.counted == 0


def test_workers_of_a_few_loaders_stay(started: StartUnder) -> None:
    now = started()
    every = [make({"num_workers": 1}) for _ in range(5)]
    for _ in range(2):
        for made in every:
            list(made)
    assert now.counted == 4
    assert "4 loaders stay already" in now.proof().evidence


def test_when_the_seams_are_undone_workers_end_with_their_pass(started: StartUnder) -> None:
    now = started()
    now.seams.undo_all()
    _, processes = drawn(make({}))
    assert processes[0].isdisjoint(processes[1])


# ---- in a training
class Random(Pictures):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        return picture + torch.rand(1) + random.random() + numpy.random.rand(), label


def test_a_process_that_starts_under_it_trains_the_same() -> None:
    found = []
    for plan in (BASELINE, PLAN):
        with workbench() as bench:
            bench.loader = DataLoader(Random(), batch_size=8, shuffle=True, num_workers=2)
            found.append(trained_from_the_start(bench, plan))
    assert found[0] == found[1]


def test_with_another_technique_around_the_loaders() -> None:
    found, resumed = [], []
    for plan in (BASELINE, Plan({**PLAN.techniques, "evaluation_in_ram": {}})):
        with workbench() as bench:
            bench.loader = DataLoader(Random(), batch_size=8, shuffle=True, num_workers=2)
            bench.switchboard.start(plan)
            bench.switchboard.switch(plan)
            torch.manual_seed(5)
            found.append((bench.train(8), bench.bits()))
            resumed += [proof.effective for proof in bench.switchboard.proofs()][:1]
    assert found[0] == found[1]
    assert resumed == [True]


@pytest.mark.thorough
def test_loader_workers_sees_changes_by_the_same_means(started_under: StartUnder) -> None:
    started_under(Plan({"loader_workers": {"count": 1}}))
    made = DataLoader(Augmented(), batch_size=7)
    firsts = []
    for epoch in range(EPOCHS):
        set_attribute(epoch, made.dataset)
        firsts.append(next(iter(made))[0][1, 0].item())
    assert [first - firsts[0] for first in firsts] == [0.0, 1.0, 2.0]


# ---- on paper
@pytest.mark.parametrize(
    ("where", "loaders", "reason"),
    [
        pytest.param(machine(), (), "reads from no DataLoader", id="no loader"),
        pytest.param(machine(), (loader(),), "without worker processes", id="no workers"),
        pytest.param(machine(), (loader(workers=2, keeps_workers=True),), "already", id="kept already"),
        pytest.param(
            machine(), (loader(workers=2, iterable=True, samples=None),), "as a stream", id="a stream"
        ),
        pytest.param(machine(system="Darwin"), (loader(workers=2),), "not copies", id="macOS"),
    ],
)
def test_what_it_refuses(where: Any, loaders: Any, reason: str) -> None:
    (found,) = PersistentWorkers.refuse(facts(where, loaders=loaders))
    assert reason in found


def test_one_epoch_starts_its_workers_once() -> None:
    run = WatchedRun(9.0, ended=True, parts=(), epochs=1)
    (reason,) = PersistentWorkers.refuse(facts(run=run, loaders=(loader(workers=2),)))
    assert "for one epoch" in reason
    assert not PersistentWorkers.refuse(facts(run=run, loaders=(loader(workers=2, training=False),)))


def test_one_loader_with_workers_is_enough() -> None:
    assert PersistentWorkers.refuse(facts(loaders=(loader(), loader(workers=2, training=False)))) == []
