"""A script without worker processes does not notice those that make its batches."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from hasten.inside.samples.columns import same_batch
from hasten.records.plan import Plan

from ..patience import PATIENCE_SECONDS
from .reading import Started, StartUnder

SIZE = 24
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="refused on other systems")
Start = Callable[..., Started]


@pytest.fixture
def started(started_under: StartUnder) -> Start:
    """With this many worker processes."""
    return lambda count=2: started_under(Plan({"loader_workers": {"count": count}}))


class Rows(Dataset[Any]):
    """Notes in each sample which process made it."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(index)), os.getpid()


def is_read_here(batches: Any) -> bool:
    return all(int(pid) == os.getpid() for _, pids in batches for pid in pids)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def as_many_are_open(before: int) -> bool:
    """A loader's own pipes are closed a moment after it has gone."""
    until = time.monotonic() + PATIENCE_SECONDS
    while open_files() != before and time.monotonic() < until:
        gc.collect()
        time.sleep(0.02)
    return open_files() == before


# ---- tensors of a batch
def test_tensors_that_a_script_keeps_hold_no_files_open(started: Start) -> None:
    started()
    loader = DataLoader(Rows(), batch_size=1)
    kept = list(loader)
    before = open_files()
    kept += list(loader)
    assert as_many_are_open(before)
    assert not is_read_here(kept)
    assert not any(tensor.is_shared() for batch in kept for tensor in batch)
    assert [int(values[0, 0]) for values, _ in kept] == [*range(SIZE)] * 2


def shifted(samples: Any) -> Any:
    whole = torch.stack([values for values, _ in samples])
    return whole[:-1], whole[1:], torch.zeros(1000)[3:5], whole[0].expand(4, 3)


def test_tensors_are_laid_out_as_they_were(started: Start) -> None:
    now = started()
    (theirs,) = DataLoader(Rows(), batch_size=SIZE, collate_fn=shifted, num_workers=2)
    (ours,) = DataLoader(Rows(), batch_size=SIZE, collate_fn=shifted)
    assert now.proof().effective
    assert [one.stride() for one in ours] == [one.stride() for one in theirs]
    assert same_batch(list(ours), list(theirs))
    former, latter, part, _ = ours
    former[1] = 7.0
    assert latter[0, 0] == 7.0
    assert part.untyped_storage().nbytes() == 8


class Wide(Rows):
    def __getitem__(self, index: int) -> Any:
        return torch.full((100_000,), float(index)), os.getpid()


def test_large_tensors_are_as_they_were(started: Start) -> None:
    now = started()
    before = open_files()
    batches = list(DataLoader(Wide(), batch_size=4, shuffle=True))
    assert not is_read_here(batches)
    assert sorted(int(one) for values, _ in batches for one in values[:, -1]) == [*range(SIZE)]
    assert all((values == values[:, :1]).all() and not values.is_shared() for values, _ in batches)
    assert as_many_are_open(before)
    assert now.proof().effective


class Unread:
    """Cannot be received."""

    def __reduce__(self) -> Any:
        return _fail, ()


def _fail() -> None:
    if multiprocessing.parent_process() is None:
        raise OSError("too many open files")


def holding(samples: Any) -> Any:
    values, pids = torch.utils.data.default_collate(samples)
    return (values, pids, Unread())


def test_what_cannot_be_received_is_made_here(started: Start) -> None:
    started()
    batches = [batch[:2] for batch in DataLoader(Rows(), batch_size=4, collate_fn=holding)]
    assert is_read_here(batches)
    assert [int(values[0, 0]) for values, _ in batches] == [*range(0, SIZE, 4)]


# ---- files and connections
class OfFile(Dataset[Any]):
    WIDTH = 4096

    def __init__(self, path: Path, mode: str = "rb") -> None:
        numpy.repeat(numpy.arange(SIZE, dtype=numpy.float32), self.WIDTH).tofile(path)
        self._file: Any = path.open(mode)

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        self._file.seek(index * self.WIDTH * 4)
        read = numpy.frombuffer(self._file.read(self.WIDTH * 4), dtype=numpy.float32)
        return torch.from_numpy(read.copy()), os.getpid()


class Offset(Dataset[Any]):
    """Notes where a file stands, which was open before."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(4096))
        self.file = os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return os.lseek(self.file, index + 1, os.SEEK_CUR)


def test_workers_read_open_files_at_offsets_of_their_own(started: Start, tmp_path: Path) -> None:
    started(1)
    made = Offset(tmp_path / "rows")
    try:
        assert [int(one) for one in DataLoader(made, batch_size=1)] == [1, 3]
        assert os.lseek(made.file, 0, os.SEEK_CUR) == 0
    finally:
        os.close(made.file)


@pytest.mark.parametrize(("mode", "here"), [("rb", False), ("r+b", True)])
def test_a_file_that_may_be_written_is_read_here(
    started: Start, tmp_path: Path, mode: str, here: bool
) -> None:
    now = started()
    made = OfFile(tmp_path / "rows", mode)
    batches = list(DataLoader(made, batch_size=2))
    assert is_read_here(batches) is here
    assert ("rows, which is open for writing, too" in now.proof().evidence) is here
    assert [int(values[0, 5]) for values, _ in batches] == [*range(0, SIZE, 2)]
    made._file.close()


class Served(Rows):
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def __getitem__(self, index: int) -> Any:
        self.connection.send(b"a sample, please")
        return super().__getitem__(index)


@pytest.mark.parametrize("kind", [Served, lambda connection: Rows()])
def test_a_connection_that_samples_come_from_has_one_reader(started: Start, kind: Any) -> None:
    now = started()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        here = is_read_here(DataLoader(kind(connection), batch_size=4))
    assert here is (kind is Served)
    assert ("drawing a sample of Served again failed" in now.proof().evidence) is here


# ---- many loaders
def test_workers_of_four_loaders_stay(started: Start) -> None:
    now = started(1)
    loaders = [DataLoader(Rows(), batch_size=8) for _ in range(6)]
    for _ in range(2):
        assert [is_read_here(loader) for loader in loaders] == [False] * 4 + [True] * 2
    assert "workers of 4 loaders stay already" in now.proof().evidence


# ---- what making a batch leaves behind
class Counted(Rows):
    def __init__(self) -> None:
        self.made = 0

    def __getitem__(self, index: int) -> Any:
        self.made += 1
        return super().__getitem__(index)


class Drawn(Rows):
    def __init__(self) -> None:
        self.generator = numpy.random.default_rng(3)

    def __getitem__(self, index: int) -> Any:
        self.generator.random()
        return super().__getitem__(index)


class InPlace(Rows):
    def __init__(self) -> None:
        self.rows = numpy.ones((SIZE, 3))

    def __getitem__(self, index: int) -> Any:
        self.rows[index] /= 2
        return super().__getitem__(index)


class Remembered(Rows):
    """What it keeps is the same in each process."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        self.known[index] = self.known.get(index, index)
        return super().__getitem__(index)


class Numbered(Rows):
    def __init__(self) -> None:
        self.made = multiprocessing.Value("i", 0)

    def __getitem__(self, index: int) -> Any:
        with self.made.get_lock():
            self.made.value += 1
        return super().__getitem__(index)


class Collate:
    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, samples: Any) -> Any:
        self.batches += 1
        return torch.utils.data.default_collate(samples)


seen: list[int] = []


def noting(samples: Any) -> Any:
    seen.append(len(samples))
    return torch.utils.data.default_collate(samples)


@pytest.mark.parametrize(
    ("dataset", "collate", "named"),
    [
        (Counted, None, "Counted.made"),
        (Drawn, None, "Drawn.generator"),
        (InPlace, None, "InPlace.rows"),
        (Rows, Collate(), "Collate"),
        (Rows, noting, "noting"),
    ],
)
def test_what_a_batch_changes_is_changed_here(
    started: Start, dataset: Callable[[], Any], collate: Any, named: str
) -> None:
    now = started()
    seen.clear()
    assert is_read_here(DataLoader(dataset(), batch_size=4, collate_fn=collate))
    assert f"changes {named}" in now.proof().evidence
    assert seen == ([4] * 6 if collate is noting else [])


def test_what_is_shared_with_other_processes_is_not_tried(started: Start) -> None:
    now, made = started(), Numbered()
    assert is_read_here(DataLoader(made, batch_size=4))
    assert made.made.value == SIZE
    assert "Numbered.made is memory that processes share" in now.proof().evidence


@pytest.mark.parametrize("kind", [Rows, Remembered])
def test_samples_that_a_data_set_remembers_are_made_by_workers(started: Start, kind: Any) -> None:
    started()
    assert not is_read_here(DataLoader(kind(), batch_size=4))


def with_function(samples: Any) -> Any:
    return [*torch.utils.data.default_collate(samples), lambda: None]


def test_a_batch_that_cannot_be_sent_is_made_here(started: Start) -> None:
    now = started()
    batches = [batch[:2] for batch in DataLoader(Rows(), batch_size=4, collate_fn=with_function)]
    assert is_read_here(batches)
    assert "cannot be sent" in now.proof().evidence


# ---- without the script's own workers
def test_workers_that_hide_what_samples_change_stay(started: Start) -> None:
    now = started(0)
    assert not is_read_here(DataLoader(InPlace(), batch_size=4, num_workers=1))
    assert "InPlace.rows" in now.proof().evidence


def test_a_change_within_an_epoch_brings_workers_back(
    started: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    now, made = started(0), Remembered()
    made.noise = 1.0  # type: ignore[attr-defined]
    loader = DataLoader(made, batch_size=4, num_workers=1)
    for _ in loader:
        made.noise = 0.5  # type: ignore[attr-defined]
    assert not now.proof().effective
    assert "Remembered.noise within an epoch, which its worker processes see" in capsys.readouterr().err
    assert not is_read_here(loader)


# ---- errors
class Corrupt(Exception):
    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"{path}: {code}")
        self.code = code


class Broken(Rows):
    def __init__(self, errors: dict[int, BaseException]) -> None:
        self._errors = errors

    def __getitem__(self, index: int) -> Any:
        if index in self._errors:
            raise self._errors[index]
        return super().__getitem__(index)


def caught(loader: DataLoader[Any]) -> tuple[list[int], list[str]]:
    """(first samples of the batches that came, what was raised instead of others)."""
    came: list[int] = []
    raised: list[str] = []
    batches = iter(loader)
    while True:
        try:
            values, _ = next(batches)
        except StopIteration:
            return came, raised
        except (Exception, SystemExit) as error:
            raised.append(repr(error))
        else:
            came.append(int(values[0, 0]))


ERRORS = {5: ValueError("no sample"), 9: Corrupt("a.png", 3), 13: SystemExit(7)}


def test_errors_are_the_scripts_own_and_the_rest_comes(started: Start) -> None:
    theirs = caught(DataLoader(Broken(ERRORS), batch_size=4))
    now = started()
    assert caught(DataLoader(Broken(ERRORS), batch_size=4)) == theirs
    assert theirs == ([0, 16, 20], ["ValueError('no sample')", "Corrupt('a.png: 3')", "SystemExit(7)"])
    assert now.proof().effective


def test_an_error_in_a_batch_that_is_one_sample(started: Start) -> None:
    theirs = caught(DataLoader(Broken({3: SystemExit(7)}), batch_size=None, collate_fn=first_alone))
    started()
    assert caught(DataLoader(Broken({3: SystemExit(7)}), batch_size=None, collate_fn=first_alone)) == theirs


def first_alone(sample: Any) -> Any:
    return sample[0][None], sample[1]


class Deadly(Rows):
    """Ends a worker that makes the tenth sample."""

    def __init__(self) -> None:
        self._home = os.getpid()

    def __getitem__(self, index: int) -> Any:
        if index == 10 and os.getpid() != self._home:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class ShortOfSamples(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(12)
        raise LookupError("no more")

    def __len__(self) -> int:
        return SIZE


def test_an_error_of_the_sampler_comes_in_its_turn(started: Start) -> None:
    theirs = caught(DataLoader(Rows(), batch_size=4, sampler=ShortOfSamples()))
    now = started()
    assert caught(DataLoader(Rows(), batch_size=4, sampler=ShortOfSamples())) == theirs
    assert theirs == ([0, 4, 8], ["LookupError('no more')"])
    assert now.proof().effective


def test_batches_of_a_worker_that_was_killed_are_made_here(started: Start) -> None:
    started(1)
    assert caught(DataLoader(Deadly(), batch_size=4)) == ([0, 4, 8, 12, 16, 20], [])


# ---- when a sampler is asked
def zipped(**options: Any) -> list[Any]:
    torch.manual_seed(4)
    a, b = (DataLoader(Rows(), batch_size=4, shuffle=True, **options) for _ in range(2))
    told: list[Any] = []
    for _ in range(2):
        told += [(x[:, 0].tolist(), y[:, 0].tolist()) for (x, _), (y, _) in zip(a, b, strict=True)]
    batches = iter(a)
    told.append(torch.rand(1).item())
    return [*told, next(batches)[0].tolist(), torch.rand(1).item()]


@pytest.mark.parametrize("count", [0, 2])
def test_random_numbers_before_the_first_batch_are_the_same(started: Start, count: int) -> None:
    own = {} if count else {"num_workers": 1, "prefetch_factor": 3}
    theirs = zipped(**own)
    now = started(count)
    assert zipped(**own) == theirs
    assert now.proof().effective


def test_a_pass_that_has_not_begun_begins_without_us(started: Start) -> None:
    now = started()
    batches = iter(DataLoader(Rows(), batch_size=4))
    now.seams.undo_all()
    assert len(list(batches)) == 6


def test_order_is_kept_where_a_script_with_workers_would_not(started: Start) -> None:
    started()
    if not hasattr(DataLoader(Rows()), "in_order"):
        pytest.skip("this torch has no in_order")
    loader = DataLoader(Rows(), batch_size=4, in_order=False)
    assert [int(values[0, 0]) for values, _ in loader] == [*range(0, SIZE, 4)]
    assert vars(loader)["in_order"] is False
