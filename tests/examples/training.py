"""A shipped example trained in a process of its own, in one thread, and on a quarter of its images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..patience import PATIENCE_SECONDS

# Python runs it before the script, which knows nothing of it.
_A_QUARTER = """
import torch.utils.data as data

class Few(data.DataLoader):
    def __init__(self, dataset, *args, **kwargs):
        super().__init__(data.Subset(dataset, range(len(dataset) // 4)), *args, **kwargs)

data.DataLoader = Few
"""


def train(script: Path, folder: Path, *arguments: str) -> str:
    """What the script prints under seed 0, started from ``folder``. A warning is an error, as in ours."""
    outside = folder.with_name(f"{folder.name}-outside")
    outside.mkdir(exist_ok=True)
    (outside / "sitecustomize.py").write_text(_A_QUARTER)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments, "--seed", "0"],
        cwd=folder,
        # in one thread, sums are added in one order
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(outside)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
