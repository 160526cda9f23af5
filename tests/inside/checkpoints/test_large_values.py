"""What is fetched at once and is large is played back if it is small when compressed."""

from __future__ import annotations

import os

import pytest
import torch

from hasten.inside.checkpoints import script_journal
from hasten.inside.checkpoints.course import Course
from hasten.inside.checkpoints.following import Recording
from hasten.inside.checkpoints.large_values import LARGE, Large
from hasten.inside.checkpoints.script_journal import Reader, Writer

CLASSES = torch.arange(LARGE) // 1000 % 3


def failing(error: Exception) -> None:
    raise error


def recorded(*given: torch.Tensor, after_a_pass: bool = True) -> Reader:
    """The journal of a script that reads tensors."""
    writer = Writer()
    recording = Recording(lambda: course, writer, lambda kind: None)
    course = Course(torch, recording)
    recording.on_failure(failing)
    recording.torch_came(torch)
    if after_a_pass:
        recording.forward(lambda: None, None, (), {})
        writer.take()
    for tensor in given:
        recording.fetch(torch.Tensor.numpy, "numpy", (tensor,), {})
    return Reader(writer.take())


def test_an_array_of_classes_comes_back() -> None:
    assert recorded(CLASSES).next(script_journal.VALUE) == CLASSES.numpy().tobytes()


def test_a_long_text_comes_back() -> None:
    values = [1.5] * LARGE
    kept = Large(repr(values).encode(), "list", is_text=True).packed()
    assert kept is not None
    writer = Writer()
    writer.add(script_journal.VALUE, kept)
    assert Reader(writer.take()).next(script_journal.VALUE) == values


def test_what_stays_large_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    noise = torch.frombuffer(bytearray(os.urandom(LARGE + 8)), dtype=torch.uint8)
    reader = recorded(noise, noise)
    assert reader.next(script_journal.VALUE)["bytes"] == LARGE + 8
    said = capsys.readouterr().err
    assert said.count("cannot be continued from a checkpoint") == 1
    assert f"{LARGE + 8:,} bytes at once (array of uint8)" in said


def test_of_data_before_the_first_pass_a_checksum_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    kept = recorded(CLASSES, after_a_pass=False).next(script_journal.VALUE)
    assert kept == Large(CLASSES.numpy().tobytes(), "").summed()
    assert capsys.readouterr().err == ""
