"""Worker processes hand over the same batches in the same order; the main process draws the same numbers."""

from __future__ import annotations

import copy
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from hasten.bench.base import batches_ahead
from hasten.inside.job import Job
from hasten.inside.samples.columns import same_batch
from hasten.inside.techniques.loader_workers import LoaderWorkers
from hasten.launch.one_process import render
from hasten.records.plan import Plan

from ..patience import PATIENCE_SECONDS
from .made_up import facts, loader, machine
from .reading import Started, StartUnder

SIZE = 22
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
pytestmark = linux_only


class Squares(Dataset[Any]):
    """Notes in each sample which process made it."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(index) ** 2), os.getpid()


class Eager(torch.utils.data.Sampler[int]):
    """Draws when it is taken up, not when it is asked for the first index."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(SIZE).tolist())

    def __len__(self) -> int:
        return SIZE


class EagerBatches(torch.utils.data.Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        order = random.sample(range(SIZE), SIZE - 2) + torch.randperm(2).tolist()
        return iter([order[k : k + 5] for k in range(0, SIZE, 5)])

    def __len__(self) -> int:
        return 5


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


LOADERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 4},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "by a generator": lambda: {"batch_size": 4, "shuffle": True, "generator": generator()},
    "the last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "all at once": lambda: {"batch_size": SIZE, "shuffle": True},
    "weighted": lambda: {"batch_size": 4, "sampler": WeightedRandomSampler([1.0] * SIZE, 9)},
    "an eager sampler": lambda: {"batch_size": 4, "sampler": Eager()},
    "an eager sampler alone": lambda: {"batch_size": None, "sampler": Eager()},
    "eager batches": lambda: {"batch_sampler": EagerBatches()},
}
KEPT = {"count": 2, "prefetch_factor": 2, "persistent_workers": True}
SETTINGS: dict[str, dict[str, Any]] = {
    "kept workers": KEPT,
    "new workers each epoch": {"count": 1, "persistent_workers": False},
}


def drawn(made: DataLoader[Any], epochs: int = 2, leave_after: int = 10**6) -> list[Any]:
    """Inputs of every batch of several epochs, with a draw of the training's own at each step, and the random
    streams after each epoch.
    """
    torch.manual_seed(8)
    random.seed(8)
    told: list[Any] = []
    for _ in range(epochs):
        for number, (inputs, _) in enumerate(made, 1):
            told += [inputs, torch.rand(1)]
            if number == leave_after:
                break
        own = made.generator
        told += [torch.get_rng_state(), list(random.getstate()[1])]
        told += [own.get_state()] if own is not None and leave_after == 10**6 else []
    return told


def processes(made: DataLoader[Any]) -> set[int]:
    return {int(pid) for _, pids in made for pid in pids.reshape(-1)}


Start = Callable[[dict[str, Any]], Started]


@pytest.fixture
def started(started_under: StartUnder) -> Start:
    """Under the technique with these settings."""
    return lambda settings: started_under(Plan({"loader_workers": settings}))


# ---- the same batches, order and draws
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_batches_order_and_draws_are_as_without_workers(started: Start, name: str, settings: str) -> None:
    theirs = drawn(DataLoader(Squares(), **LOADERS[name]()))
    now = started(SETTINGS[settings])
    ours = drawn(DataLoader(Squares(), **LOADERS[name]()))
    assert same_batch(ours, theirs)
    assert now.proof().effective


@pytest.mark.parametrize("name", ["shuffled", "by a generator", "an eager sampler"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_an_epoch_that_is_left_early_changes_nothing_later(started: Start, name: str, settings: str) -> None:
    theirs = drawn(DataLoader(Squares(), **LOADERS[name]()), leave_after=1)
    started(SETTINGS[settings])
    assert same_batch(drawn(DataLoader(Squares(), **LOADERS[name]()), leave_after=1), theirs)


@pytest.mark.parametrize("own", [{}, {"persistent_workers": True}])
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("name", ["shuffled", "eager batches", "an eager sampler"])
def test_a_script_with_workers_may_have_others(started: Start, own: Any, count: int, name: str) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Squares(), num_workers=2, **own, **LOADERS[name]())

    theirs = drawn(make())
    now = started({"count": count})
    made = make()
    assert same_batch(drawn(made), theirs)
    here = processes(made)
    if count == 0 and own:
        assert "keeps its workers" in now.proof().evidence
        assert len(here) == 2
    else:
        assert (here == {os.getpid()}) is (count == 0)
        assert len(here) == 1
        assert now.proof().effective


def test_samples_are_made_by_as_many_processes_as_asked_for(started: Start) -> None:
    now = started(KEPT)
    made = DataLoader(Squares(), batch_size=4)
    first = processes(made)
    assert len(first) == 2
    assert os.getpid() not in first
    assert processes(made) == first  # they are kept
    assert now.proof().evidence == "12 batches came from 2 worker processes"
    started_anew = DataLoader(Squares(), batch_size=4)
    assert processes(started_anew).isdisjoint(first)


def test_the_loaders_options_are_the_scripts_again(started: Start) -> None:
    started(KEPT)
    made = DataLoader(Squares(), batch_size=4)
    before = dict(vars(made))
    list(made)
    assert vars(made) == before
    assert made.num_workers == 0
    assert len(list(pickle.loads(pickle.dumps(made)))) == 6  # the workers that stay are not in it
    assert processes(copy.deepcopy(made)).isdisjoint(processes(made))


def test_two_readers_of_one_loader_do_not_disturb_each_other(started: Start) -> None:
    started(KEPT)
    made = DataLoader(Squares(), batch_size=4)
    pairs = list(zip(made, made, strict=True))
    assert len(pairs) == 6
    assert all(torch.equal(a[0], b[0]) for a, b in pairs)


# ---- what it leaves alone
def test_an_evaluation_stays_in_the_training_process(started: Start) -> None:
    now = started(KEPT)
    made = DataLoader(Squares(), batch_size=4)
    with torch.no_grad():
        assert processes(made) == {os.getpid()}
    assert not now.proof().effective


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.zeros(1), os.getpid())] * 4)


class Unpicklable(Squares):
    def __init__(self) -> None:
        self.function = lambda: 0


def on_device() -> TensorDataset:
    return TensorDataset(torch.zeros(4, 1, device="meta"), torch.arange(4))


@pytest.mark.parametrize(
    ("make", "settings", "reason"),
    [
        pytest.param(lambda: DataLoader(Stream()), KEPT, "is read as a stream", id="a stream"),
        pytest.param(
            lambda: DataLoader(Unpicklable()), {"count": 1, "context": "spawn"}, "new process", id="spawn"
        ),
        pytest.param(
            lambda: DataLoader(Squares(), num_workers=1), {"count": 1}, "1 workers already", id="as many"
        ),
        pytest.param(
            lambda: DataLoader(Squares(), num_workers=1, timeout=60), {"count": 0}, "timeout", id="a timeout"
        ),
    ],
)  # fmt: skip
def test_what_is_read_as_the_script_says(started: Start, make: Any, settings: Any, reason: str) -> None:
    now = started(settings)
    made = make()
    assert len(processes(made)) == 1
    assert not now.proof().effective
    assert reason in now.proof().evidence


def test_tensors_of_a_device_are_not_handed_to_other_processes(started: Start) -> None:
    now = started(KEPT)
    assert len(list(DataLoader(on_device()))) == 4
    assert "tensors of a device" in now.proof().evidence


def test_a_folder_whose_sockets_would_have_too_long_paths(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + "x" * 80)
    now = started(KEPT)
    assert processes(DataLoader(Squares())) == {os.getpid()}
    assert "too long for a socket's path" in now.proof().evidence


def test_an_error_in_a_worker_reaches_the_script(started: Start) -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> Any:
            raise KeyError("no such sample")

    started(KEPT)
    with pytest.raises(KeyError, match="no such sample"):
        list(DataLoader(Broken()))


def test_when_the_seams_are_undone_loaders_are_as_before(started: Start) -> None:
    now = started(KEPT)
    now.seams.undo_all()
    assert processes(DataLoader(Squares())) == {os.getpid()}


# ---- in a separate process
SCRIPT = """
import os, torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, index):
        return torch.ones(4), os.getpid()

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (inputs, pids) in enumerate(DataLoader(Data(), batch_size=2)):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()
    print(os.getpid(), *pids.tolist(), flush=True)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = Job(argv=(str(script),), machine=machine(), plan=Plan({"loader_workers": {"count": 2}}))
    command, environment = render(job, {**os.environ, "OMP_NUM_THREADS": "1"})
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = [list(map(int, process.stdout.readline().split())) for _ in range(4)]
            own, workers = told[0][0], {pid for line in told for pid in line[1:]}
            assert len(workers) == 2
            assert own not in workers
            assert all(map(alive, workers))
        finally:
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "a worker outlived its process"
        time.sleep(0.1)


# ---- on paper
def counts(cpus: int, **other: Any) -> list[Any]:
    there = facts(machine(logical_cpus=cpus, physical_cores=cpus), loaders=(loader(**other),))
    return [settings["count"] for settings in LoaderWorkers.options(there)]


@pytest.mark.parametrize(
    ("cpus", "own", "expected"),
    [(1, 0, [1]), (2, 0, [1, 2]), (4, 0, [2, 4, 1]), (64, 0, [8, 16, 1]), (4, 4, [2, 0]), (2, 4, [2, 0])],
)
def test_what_is_worth_trying(cpus: int, own: int, expected: list[int]) -> None:
    assert counts(cpus, workers=own) == expected


def test_a_containers_quota_counts() -> None:
    there = facts(machine(logical_cpus=64, quota_cpus=2.0))
    assert [settings["count"] for settings in LoaderWorkers.options(there)] == [1, 2]
    for settings in LoaderWorkers.options(there):
        LoaderWorkers.check(settings)


@pytest.mark.parametrize(("random", "risk"), [("", "exact"), ("differs", "draws"), (None, "draws")])
def test_the_risk_is_what_was_found_of_the_samples(random: str | None, risk: str) -> None:
    loaders = (loader(random=random), loader(training=False, random="differs"))
    assert LoaderWorkers.risk_for(facts(loaders=loaders)) == risk


@pytest.mark.parametrize(
    ("where", "loaders", "reason"),
    [
        pytest.param(machine(), (), "reads from no DataLoader", id="no loader"),
        pytest.param(machine(), (loader(iterable=True, samples=None),), "as a stream", id="a stream"),
        pytest.param(machine(system="Darwin"), (loader(),), "import the script again", id="macOS"),
    ],
)
def test_what_it_refuses(where: Any, loaders: Any, reason: str) -> None:
    (found,) = LoaderWorkers.refuse(facts(where, loaders=loaders))
    assert reason in found


def test_it_applies_to_a_dataset_with_indices() -> None:
    assert LoaderWorkers.refuse(facts()) == []
    assert LoaderWorkers.refuse(facts(loaders=(loader(), loader(iterable=True)))) == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"count": -1},
        {"count": True},
        {"count": 1, "prefetch_factor": 0},
        {"count": 1, "persistent_workers": 1},
        {"count": 1, "context": "thread"},
        {"count": 1, "more": 1},
    ],
)
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs count"):
        LoaderWorkers.check(settings)


def test_the_same_by_hand() -> None:
    assert "num_workers=2, prefetch_factor=4, persistent_workers=True" in LoaderWorkers.by_hand(
        {"count": 2, "prefetch_factor": 4}
    )
    assert "num_workers=0" in LoaderWorkers.by_hand({"count": 0})


def test_batches_that_lie_ready_after_a_pause_are_known() -> None:
    assert LoaderWorkers.ahead({"count": 2, "prefetch_factor": 3}) == 6
    assert LoaderWorkers.ahead({"count": 2}) == 4
    assert LoaderWorkers.ahead({"count": 0}) == 0
    assert batches_ahead(Plan({"loader_workers": {"count": 2}, "bf16": {}})) == 4


# ---- a data set that the script changes while it reads it
class Growing(Dataset[Any]):
    """Samples of a difficulty that the script sets as it trains."""

    def __init__(self) -> None:
        self.difficulty = 1
        self.transform = Scaled()

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(torch.full((3,), float(index * self.difficulty))), os.getpid()


class Scaled:
    def __init__(self) -> None:
        self.by = [1.0, 1.0]

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.by[0]


def make_harder(dataset: Growing) -> None:
    dataset.difficulty += 1


def scale(dataset: Growing) -> None:
    dataset.transform.by = [2.0, 1.0]


@pytest.mark.parametrize(
    ("change", "name"),
    [(make_harder, "Growing.difficulty"), (scale, "Growing.transform.by[0]")],
)
@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_data_set_that_changes_within_an_epoch_is_left_to_the_script(
    started: Start,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Growing], None],
    name: str,
    after: int,
) -> None:
    now, dataset = started(KEPT), Growing()
    read = DataLoader(dataset, batch_size=4)
    for number, _ in enumerate(read, 1):
        if number == after:
            change(dataset)
    proof = now.proof()
    assert not proof.effective
    assert name in proof.evidence
    assert f"the script changes {name} within an epoch" in capsys.readouterr().err
    assert processes(read) == {os.getpid()}


def test_what_is_no_number_has_not_changed(started: Start) -> None:
    now, dataset = started(KEPT), Growing()
    dataset.best = float("nan")  # type: ignore[attr-defined]
    list(DataLoader(dataset, batch_size=4))
    assert now.proof().effective


def test_what_changes_between_two_epochs_reaches_the_workers(started: Start) -> None:
    now, dataset = started(KEPT), Growing()
    read = DataLoader(dataset, batch_size=SIZE)
    for epoch in (1, 2, 3):
        dataset.difficulty = epoch
        ((values, pids),) = read
        assert values[1, 0] == epoch
        assert os.getpid() not in pids
    assert now.proof().effective


def test_a_script_with_workers_of_its_own_sees_what_it_always_did(started: Start) -> None:
    now, dataset = started({"count": 2}), Growing()
    for _ in DataLoader(dataset, batch_size=4, num_workers=1):
        make_harder(dataset)
    assert now.proof().effective
