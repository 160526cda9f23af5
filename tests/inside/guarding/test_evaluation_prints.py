"""What a script prints is heard where it evaluates, and printed all the same."""

from __future__ import annotations

import sys

import pytest
import torch

from hasten.inside.guarding.evaluation_prints import Printed
from hasten.inside.guarding.recorder import Recorder
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.seams import Seams
from hasten.inside.training import Training


def test_lines_with_numbers_are_heard_and_printed(seams: Seams, capsys: pytest.CaptureFixture[str]) -> None:
    heard = Printed(seams)
    print("loss", 0.25, 3)
    print("nothing to compare")
    print("to errors: 7", file=sys.stderr)
    print("unended 8", end="")
    assert heard.take() == ("loss 0.25 3", "to errors: 7")
    assert heard.take() == ()
    seams.undo_all()
    print("later 9")
    assert heard.take() == ()
    captured = capsys.readouterr()
    assert captured.out == "loss 0.25 3\nnothing to compare\nunended 8later 9\n"
    assert captured.err == "to errors: 7\n"


def test_the_recorder_keeps_them_with_the_step_after_an_evaluation(
    seams: Seams, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(Training(torch, seams, available_bytes=0))
    print("step 1")
    recorder.step_ended(RawStep())
    print("accuracy 2")
    recorder.step_ended(RawStep(evaluations=3))
    print("step 3")
    recorder.step_ended(RawStep())
    assert [step.printed for step in recorder.trace()] == [(), ("accuracy 2",), ()]


def test_of_a_progress_bar_its_last_form_counts(seams: Seams, capsys: pytest.CaptureFixture[str]) -> None:
    heard = Printed(seams)
    for done in range(3):
        sys.stdout.write(f"\r{done} of 2")
    sys.stdout.write("\n")
    assert heard.take() == ("2 of 2",)


def test_what_was_printed_before_can_be_forgotten(seams: Seams, capsys: pytest.CaptureFixture[str]) -> None:
    heard = Printed(seams)
    print("step 1")
    heard.forget()
    print("accuracy 2")
    assert heard.take() == ("accuracy 2",)


def test_a_standard_stream_that_is_none_is_let_be(seams: Seams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert Printed(seams).take() == ()
