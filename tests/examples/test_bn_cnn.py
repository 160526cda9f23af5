"""The example with batch norm and dropout trains, and learns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hasten import examples

from .training import train

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(examples.path("bn_cnn"), id="installed"),
        pytest.param(REPOSITORY / "examples" / "bn_cnn.py", id="by the link of the repository"),
    ],
)
def test_it_learns_in_one_epoch_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    *losses, last = train(script, folder, "--epochs", "1", "--batch-size", "25").splitlines()
    assert [line.split(",")[1] for line in losses] == [f" Step [{n}/80]" for n in (20, 40, 60, 80)]
    found = re.fullmatch(r"Test accuracy: (0\.\d{4})", last)
    assert found is not None
    assert float(found[1]) > 0.6  # guessing gives 0.1
    assert list(folder.iterdir()) == []
