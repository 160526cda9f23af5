"""Samples that one process of a tune has made are read by the next, and count as if it had made them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.samples import left_samples, sample_cache, sample_caches
from hasten.inside.samples.columns import same_batch
from hasten.inside.samples.forked_filling import made_in_parallel
from hasten.inside.samples.left_samples import LeftSamples
from hasten.inside.samples.made_records import Made
from hasten.inside.seams import Seams
from hasten.records.plan import Plan

from ...techniques.reading import Reading

PLAN = Plan({"dataset_in_ram": {}})
COUNT = 40


class Numbers(Dataset[Any]):
    def __init__(self, path: Path, count: int = COUNT, factor: float = 1.0) -> None:
        self.path, self.count, self.factor = str(path), count, factor

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with open(self.path) as file:
            return torch.full((3,), float(file.read()) * index * self.factor), index % 4


Process = Callable[..., Reading]


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples were made at each filling; any time is worth sparing."""
    monkeypatch.setattr(sample_caches, "_WORTH_LEAVING", 0.0)
    counts: list[int] = []

    def counting(torch: Any, make: Any, wanted: Any, *more: Any) -> Any:
        counts.append(len(wanted))
        return made_in_parallel(torch, make, wanted, *more)

    monkeypatch.setattr(sample_cache, "made_in_parallel", counting)
    return counts


@pytest.fixture
def number(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("2")
    return path


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """What a process of a tune is to the caches: a training of its own, and the folder of all of them."""
    seams = Seams()

    def begun(in_a_tune: bool = True) -> Reading:
        seams.undo_all()
        reading = Reading(seams)
        reading.training.sample_folder = str(tmp_path / "trials" / "samples")
        reading.training.in_a_trial = in_a_tune
        return reading

    (tmp_path / "trials").mkdir()
    yield begun
    seams.undo_all()


def filled(reading: Reading, dataset: Any) -> float:
    """Seconds of set-up, as a run pays it."""
    reading.epoch(dataset)
    return reading.board.switch(PLAN, prepare=True)


def left(tmp_path: Path) -> list[str]:
    folder = tmp_path / "trials" / "samples"
    return sorted(path.name for path in folder.glob("*.left"))


# ---- from process to process
def test_the_next_process_reads_what_the_first_has_made(
    process: Process, number: Path, made: list[int]
) -> None:
    first = process()
    filled(first, Numbers(number))
    assert made == [COUNT]
    assert first.board.spared_seconds < 0, "it has written them"
    second = process()
    filled(second, Numbers(number))
    assert made == [COUNT]


def test_set_up_counts_as_if_each_process_had_made_them(
    process: Process, number: Path, made: list[int]
) -> None:
    samples = LeftSamples(process().training, Numbers(number), None)
    assert samples.leave(enumerate(right()), 60.0)
    reading = process()
    told = filled(reading, Numbers(number))
    assert made == []
    spared, shared = reading.board.spared_seconds, reading.proof().shared_seconds
    assert 50 < shared == spared < 60 < told < 60 + 10


def test_what_was_read_is_served(process: Process, number: Path) -> None:
    dataset = Numbers(number)
    plain = Reading.epoch(process(), dataset)
    filled(process(), Numbers(number))
    second = process()
    filled(second, dataset)
    assert same_batch(second.epoch(dataset), plain)
    assert second.proof().evidence.startswith(f"{COUNT} samples came from memory, 0 were made")


def test_a_file_that_changes_meanwhile_is_noticed(process: Process, number: Path) -> None:
    dataset = Numbers(number)
    filled(process(), Numbers(number))
    second = process()
    filled(second, dataset)
    number.write_text("30")
    values = torch.cat([values for values, _ in second.epoch(dataset)])
    assert values[1].tolist() == [30.0] * 3


def test_a_run_makes_its_own(process: Process, number: Path, tmp_path: Path, made: list[int]) -> None:
    filled(process(in_a_tune=False), Numbers(number))
    assert left(tmp_path) == []
    filled(process(), Numbers(number))
    assert len(left(tmp_path)) == 1
    reading = process(in_a_tune=False)
    filled(reading, Numbers(number))
    assert made == [COUNT] * 3
    assert abs(reading.board.spared_seconds) < 0.1


def test_quick_samples_are_not_worth_it(
    process: Process, number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_caches, "_WORTH_LEAVING", 30.0)
    filled(process(), Numbers(number))
    assert left(tmp_path) == []


def test_samples_of_files_that_were_not_in_memory_yet_are_made_once_more(
    process: Process, number: Path, tmp_path: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process of a day waits for the disk, and what it took would be told of all runs. Files that
    do not stay in memory make it wait each time, and their samples are left by the second.
    """
    read = itertools.count(0, 2**30)
    monkeypatch.setattr(sample_caches, "_read_from_disk", lambda: next(read))
    filled(process(), Numbers(number))
    assert left(tmp_path) == []
    filled(process(), Numbers(number))
    assert len(left(tmp_path)) == 1
    filled(process(), Numbers(number))
    assert made == [COUNT] * 2


# ---- what is not used
@pytest.mark.parametrize("other", [{"factor": 3.0}, {"count": COUNT - 1}], ids=["state", "length"])
def test_another_data_set_has_its_own(
    process: Process, number: Path, tmp_path: Path, made: list[int], other: dict[str, Any]
) -> None:
    filled(process(), Numbers(number))
    filled(process(), Numbers(number, **other))
    assert len(left(tmp_path)) == len(made) == 2


def test_a_file_that_has_changed_since_makes_them_anew(
    process: Process, number: Path, made: list[int]
) -> None:
    filled(process(), Numbers(number))
    number.write_text("5")
    second, dataset = process(), Numbers(number)
    filled(second, dataset)
    assert made == [COUNT] * 2
    values = torch.cat([values for values, _ in second.epoch(dataset)])
    assert values[1].tolist() == [5.0] * 3


def right() -> list[Made]:
    """All samples, as they are made."""
    return [((torch.full((3,), 2.0 * index), index % 4), []) for index in range(COUNT)]


def wrong() -> list[Made]:
    return [((torch.full((3,), 7.0), 0), []) for _ in range(COUNT)]


@pytest.mark.parametrize("spoil", ["other samples", "not all of them", "cut short", "of somebody else"])
def test_what_is_not_right_is_not_used(
    process: Process, number: Path, tmp_path: Path, made: list[int], spoil: str
) -> None:
    samples = LeftSamples(process().training, Numbers(number), None)
    assert samples.leave(enumerate(wrong() if spoil == "other samples" else right()), 1.0)
    (name,) = left(tmp_path)
    path = tmp_path / "trials" / "samples" / name
    if spoil == "cut short":
        os.truncate(path, os.path.getsize(path) - 64)
    elif spoil == "of somebody else":
        path.chmod(0o666)
    elif spoil == "not all of them":
        path.unlink()
        assert samples.leave(enumerate(right()[:-1]), 1.0)
    reading, dataset = process(), Numbers(number)
    filled(reading, dataset)
    assert made == [COUNT]
    values = torch.cat([values for values, _ in reading.epoch(dataset)])
    assert torch.equal(values[:, 0], 2.0 * torch.arange(COUNT))


def test_a_file_that_is_open_and_has_changed_since_makes_them_anew(
    process: Process, number: Path, tmp_path: Path, made: list[int]
) -> None:
    """Samples may come from it, unseen."""
    path = tmp_path / "records"
    path.write_text("1")
    with path.open():
        filled(process(), Numbers(number))
    filled(process(), Numbers(number))
    assert made == [COUNT]
    path.write_text("12")
    filled(process(), Numbers(number))
    assert made == [COUNT] * 2


def test_what_was_rejected_is_not_left_again(process: Process, number: Path, made: list[int]) -> None:
    samples = LeftSamples(process().training, Numbers(number), None)
    assert samples.leave(enumerate(wrong()), 1.0)
    reading = process()
    filled(reading, Numbers(number))
    assert made == [COUNT]
    assert reading.proof().shared_seconds == 0.0


def test_samples_of_two_data_sets_are_left_at_most(process: Process, number: Path, tmp_path: Path) -> None:
    for factor in (1.0, 2.0, 3.0):
        filled(process(), Numbers(number, factor=factor))
    assert len(left(tmp_path)) == 2


def test_a_full_disk_costs_nothing_but_time(
    process: Process, number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_samples, "_DISK_SHARE", 0.0)
    reading, dataset = process(), Numbers(number)
    filled(reading, dataset)
    assert left(tmp_path) == []
    assert reading.proof().shared_seconds == 0.0
    reading.epoch(dataset)
    assert reading.proof().evidence.startswith(f"{COUNT} samples came from memory")


class Held(Numbers):
    """Its samples hold what cannot be kept as plain bytes."""

    def __getitem__(self, index: int) -> Any:
        values, label = super().__getitem__(index)
        return {0.5: values, 1.5: label}


def test_what_cannot_be_plain_bytes_is_made_by_each(process: Process, number: Path, tmp_path: Path) -> None:
    reading, dataset = process(), Held(number)
    reading.epoch(dataset, collate_fn=list)
    reading.board.switch(PLAN, prepare=True)
    assert left(tmp_path) == []
