"""The example with batch norm and dropout trains, and learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hasten import examples

from ..patience import PATIENCE_SECONDS

REPOSITORY = Path(__file__).resolve().parents[2]


def train(script: Path, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(script), "--epochs", "1", "--seed", "0"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(examples.path("bn_cnn"), marks=pytest.mark.thorough, id="installed"),
        pytest.param(REPOSITORY / "examples" / "bn_cnn.py", id="by the link of the repository"),
    ],
)
def test_it_learns_in_one_epoch_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    *losses, last = train(script, tmp_path).splitlines()
    assert [line.split(",")[1] for line in losses] == [f" Step [{n}/80]" for n in (20, 40, 60, 80)]
    found = re.fullmatch(r"Test accuracy: (0\.\d{4})", last)
    assert found is not None
    assert float(found[1]) > 0.6  # guessing gives 0.1
    assert list(tmp_path.iterdir()) == []
