"""Whatever a script does to its process, it is followed to its end or told in one line, and nothing hangs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.bench.workers.ending import ScriptOver
from hasten.bench.workers.process import WorkerProcess
from hasten.bench.workers.worker_output import Output
from hasten.errors import WorkerError
from hasten.inside.job import Job

from ..scripts.hostile import HOSTILE, STEPS
from ..techniques.made_up import machine
from .distributed.forked import workers_forked

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="as Linux ends processes")
_AFTER = 90.0  # seconds after which it hangs
CASES = [
    pytest.param(name, marks=() if hostile.quick else pytest.mark.thorough)
    for name, hostile in HOSTILE.items()
]


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What the scripts do comes after their start."""
    with workers_forked():
        yield


def started(folder: Path, name: str) -> WorkerProcess:
    script = folder / "train.py"
    script.write_text(HOSTILE[name].source)
    job = Job(argv=(str(script),), machine=machine(), closely=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""}
    return WorkerProcess(job, environment, Output(folder / "out", folder / "err"))


def follow(worker: WorkerProcess) -> None:
    worker.wait_started(_AFTER)
    worker.steps(STEPS // 2 - 2, _AFTER)
    assert worker.observation().optimizers
    worker.steps(10_000, _AFTER)


@pytest.mark.attack("messages")
@pytest.mark.parametrize("name", CASES)
def test_it_is_followed_or_told(tmp_path: Path, name: str) -> None:
    ends = HOSTILE[name].ends
    worker = started(tmp_path, name)
    try:
        with pytest.raises((ScriptOver, WorkerError)) as told:
            follow(worker)
    finally:
        worker.stop()
    said, printed = str(told.value), (tmp_path / "err").read_text(errors="replace")
    assert "hasten" not in said.replace("connection to hasten", "")
    assert "bug in hasten" not in printed
    if ends.startswith("completed"):
        assert isinstance(told.value, ScriptOver), f"{said}\n{printed}"
        assert told.value.ended.how == "completed"
        trained = STEPS // 2 if ends == "completed early" else STEPS
        assert told.value.ended.steps_in_all == trained
    else:
        assert re.search(ends, said), f"{said}\n{printed}"
    assert "\n" not in said


@pytest.mark.attack("messages")
def test_threads_that_train_at_the_same_time_are_named(tmp_path: Path) -> None:
    """Steps of two threads cannot be distinguished: it is said instead of measured."""
    worker = started(tmp_path, "two threads")
    try:
        worker.wait_started(_AFTER)
        worker.steps(STEPS // 2 + 2, _AFTER)
        (obstacle,) = worker.observation().obstacles
    finally:
        worker.stop()
    assert re.search(r"trains in several threads at the same time \(MainThread and Thread-\d+", obstacle)
