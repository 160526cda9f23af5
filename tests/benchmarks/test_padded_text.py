"""The workload of padded texts learns, and tells of it as the others do."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from benchmarks.runs import ACCURACY, CASES, metric_in

SCRIPT = CASES["padded_text"].script


@pytest.mark.thorough
def test_it_learns_which_words_a_class_has() -> None:
    command = [sys.executable, str(SCRIPT), "--texts", "64", "--epochs", "6", "--seed", "1"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float(text) for text in re.findall(r"^epoch \d: loss (\S+),", done.stdout, re.MULTILINE)]
    assert len(losses) == 6
    assert losses[-1] < 0.75 * losses[0]
    metric = metric_in(done.stdout, ACCURACY)
    assert 0.0 <= metric <= 1.0
