"""Samples one after another in a file."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from hasten.inside.samples.made_records import RecordWriter, read_records
from hasten.inside.samples.sampling_proof import same_sample, told_apart


def written(path: Path, samples: Sequence[object]) -> bytes:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    writer = RecordWriter(file)
    for index, sample in enumerate(samples):
        writer.add(index, sample)
    writer.flush()
    os.close(file)
    assert writer.written == path.stat().st_size
    return path.read_bytes()


@pytest.mark.parametrize("at_once", [None, 100])
def test_what_was_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int | None
) -> None:
    """Also where a write ends early, as at a signal or on a disk that is nearly full."""
    if at_once is not None:
        monkeypatch.setattr(os, "writev", lambda file, parts: os.write(file, b"".join(parts)[:at_once]))
    samples = [(torch.arange(float(n)), n, "text") for n in range(2000)]
    whole = written(tmp_path / "records", samples)
    read = read_records(torch, memoryview(bytearray(whole)))
    assert list(read) == list(range(2000))
    assert all(same_sample(read[n], sample) for n, sample in enumerate(samples))


def test_a_child_leaves_alone_what_was_there() -> None:
    """A collection that went through it would copy all of its pages."""
    assert gc.get_freeze_count() < told_apart(torch, gc.get_freeze_count, 10.0)
