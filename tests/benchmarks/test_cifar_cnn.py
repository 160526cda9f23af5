"""The workload that reads pictures from a folder trains on any such folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.runs import ACCURACY, CASES, metric_in
from PIL import Image

SCRIPT = CASES["cifar_cnn"].script


def pictures(folder: Path, count: int) -> None:
    """Dark ones of one class, bright ones of another."""
    source = np.random.default_rng(0)
    for brightest, name in ((60, "night"), (255, "day")):
        for part in ("train", "test"):
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = source.integers(brightest // 2, brightest, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")


def trained(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_it_learns_what_is_in_its_folder(tmp_path: Path) -> None:
    pictures(tmp_path, 16)
    done = trained("--data", str(tmp_path), "--epochs", "3", "--seed", "0")
    assert done.returncode == 0, done.stderr
    losses = [float(text) for text in re.findall(r"^epoch \d: loss (\S+),", done.stdout, re.MULTILINE)]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    metric = metric_in(done.stdout, ACCURACY)
    assert 0.5 <= metric <= 1.0
