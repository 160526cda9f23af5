"""Saves are counted where they begin."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.observing.saves import count_saves
from hasten.inside.seams import Seams
from hasten.inside.training import Training


def test_those_of_torch_and_safetensors_are_and_none_is_lost(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    steps: list[RawStep] = []
    training = Training(torch, Seams(), available_bytes=0)
    observer = Observer(steps.append)
    usual = torch.save, safetensors.save_file
    count_saves(training, observer.save_begins)
    torch.save({"a": torch.ones(2)}, tmp_path / "a.pt")
    safetensors.save_file({"a": torch.ones(2)}, tmp_path / "a.safetensors")
    assert observer._step.saves == 2
    assert torch.load(tmp_path / "a.pt")["a"].tolist() == [1.0, 1.0]
    training.seams.undo_all()
    assert usual == (torch.save, safetensors.save_file)
