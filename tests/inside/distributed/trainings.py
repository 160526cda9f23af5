"""Scripts trained by several ranks, each a worker of its own, or by one worker alone."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hasten.inside.job import Job, Ranks
from hasten.launch.one_process import render
from hasten.machine import this_machine
from hasten.records.ranks import Findings, LoaderKey
from hasten.records.run_pace import WatchedRun

from ...patience import PATIENCE_SECONDS
from .ranks import Ended, all_ended

SEED = 3
GROUND = '''
import json, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def tell(**values):
    """What is compared: the last line that a rank prints."""
    print(json.dumps({k: v.tolist() if torch.is_tensor(v) else v for k, v in values.items()}), flush=True)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def data(count=50, seed=7):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return TensorDataset(x, x[:, :2].sum(1, keepdim=True) + 0.1 * torch.randn(count, 1, generator=generator))


def net():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
'''
LOADER = LoaderKey("TensorDataset", 50, 8, "RandomSampler")


def write(folder: Path, source: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ground.py").write_text(GROUND)
    path = folder / "train.py"
    path.write_text("from ground import *\n" + textwrap.dedent(source))
    return path


@contextmanager
def training(
    folder: Path,
    source: str,
    size: int,
    findings: Findings | None = None,
    backend: str = "shm",
    memory: bool = False,
    sync_batch_norm: bool = False,
    rehearsal: str = "",
    watched: WatchedRun | None = None,
) -> Iterator[list[subprocess.Popen[str]]]:
    """The script in ``size`` ranks; of size 0 it is one worker that is no rank. All are gone at the end."""
    script = write(folder, source)
    store = folder / f"store-{os.urandom(4).hex()}"
    descriptors = tuple(os.memfd_create(name) for name in ("now", "in turn")) if memory else ()
    started = []
    try:
        for rank in range(max(size, 1)):
            ranks = Ranks(
                rank, size, rank, f"file://{store}", backend, descriptors,
                timeout_seconds=PATIENCE_SECONDS, sync_batch_norm=sync_batch_norm,
                findings=None if rehearsal else findings or Findings(LOADER),
            )  # fmt: skip
            job = Job(
                argv=(str(script),), machine=this_machine(), seed=SEED, rehearsal=rehearsal,
                ranks=ranks if size else None, watched=watched,
            )  # fmt: skip
            argv, environment = render(job, {**os.environ, "PYTHONHASHSEED": "0"})
            process = subprocess.Popen(
                argv, env=environment, cwd=folder, pass_fds=descriptors, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            started.append(process)
        yield started
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        for process in started:
            process.kill()
            process.communicate()


def train(
    folder: Path, source: str, size: int, findings: Findings | None = None, **how: object
) -> list[Ended]:
    """How each rank ended; all of them well."""
    with training(folder, source, size, findings, **how) as started:  # type: ignore[arg-type]
        done = all_ended(started)
    for rank, one in enumerate(done):
        assert one.code == 0, f"rank {rank}: {one.stderr[-3000:]}"
    return done


def told(one: Ended) -> dict[str, list[float]]:
    """By the script's last line."""
    found: dict[str, list[float]] = json.loads(one.stdout.splitlines()[-1])
    return found


def apart(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference of two lists of numbers."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
