"""A file mapped privately: its bytes, without a descriptor, and what is written to it goes nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from hasten.inside.samples.private_mapping import map_privately


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "samples"
    path.write_bytes(bytes(range(200)))
    return path


def mapped(path: Path, size: int) -> memoryview:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return map_privately(torch, descriptor, size)
    finally:
        os.close(descriptor)


def test_its_bytes_are_the_files(file: Path) -> None:
    assert bytes(mapped(file, 200)) == bytes(range(200))


def test_what_is_written_stays_here(file: Path) -> None:
    view = torch.frombuffer(mapped(file, 200), dtype=torch.uint8)
    view[0] = 9
    assert (int(view[0]), file.read_bytes()[0]) == (9, 0)


def test_the_mapping_lives_as_long_as_a_part_of_it(file: Path) -> None:
    def count() -> int:
        with open("/proc/self/maps") as maps:
            return sum(str(file) in line for line in maps)

    whole = mapped(file, 200)
    part = torch.frombuffer(whole[10:20], dtype=torch.uint8)
    del whole
    assert (part.tolist(), count()) == (list(range(10, 20)), 1)
    del part
    assert count() == 0


def test_a_file_that_is_too_short_is_refused(file: Path) -> None:
    with pytest.raises(RuntimeError):
        mapped(file, 201)
