"""What a script saves is noticed, whichever way it says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hasten.inside.checkpoints.muted_output import Files
from hasten.inside.seams import Seams


def failing(error: Exception) -> None:
    raise error


@pytest.fixture
def seams() -> Iterator[Seams]:
    seams = Seams()
    yield seams
    seams.undo_all()


def test_weights_are_saved_by_name(tmp_path: Path, seams: Seams) -> None:
    files = Files(seams, playing=False, stop=failing)
    files.install_saves(torch)
    path = tmp_path / "weights.pt"
    torch.save(obj=torch.ones(2), f=path)
    torch.save(torch.ones(2), f=tmp_path / "again.pt")
    assert torch.load(path).tolist() == [1.0, 1.0]
    assert list(files.saved()) == [str(tmp_path / "again.pt"), str(path)]


def test_weights_are_not_saved_by_name_while_a_restart_plays(tmp_path: Path, seams: Seams) -> None:
    files = Files(seams, playing=True, stop=failing)
    files.install_saves(torch)
    torch.save(obj=torch.ones(2), f=tmp_path / "weights.pt")
    assert not (tmp_path / "weights.pt").exists()
