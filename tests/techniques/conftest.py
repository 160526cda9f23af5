"""One thread for torch: these trainings are tiny, and tests may run on busy machines."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from hasten.inside.seams import Seams
from hasten.records.plan import Plan

from .. import warm
from .processes import Run
from .reading import Reading, Started, StartUnder


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _nothing_frozen(request: pytest.FixtureRequest) -> Iterator[None]:
    """``gc_control`` steps back where something is frozen, as ``tests/conftest.py`` does."""
    if "gc_control" in request.node.nodeid:
        gc.unfreeze()
        yield
        gc.freeze()
    else:
        yield


@pytest.fixture
def reading(seams: Seams) -> Reading:
    return Reading(seams)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def ran(source: str) -> None:
        script = tmp_path / "train.py"
        script.write_text(source)
        (done,) = warm.run([warm.Program(script, tmp_path, os.environ)])
        assert done.code == 0, done.stderr

    return ran


@pytest.fixture
def started_under() -> Iterator[StartUnder]:
    """A reading under the plan that is asked for, as from a process' start; a test may start several."""
    with ExitStack() as stack:

        def start(plan: Plan, available_bytes: int = 2**32) -> Started:
            seams = Seams()
            stack.callback(seams.undo_all)
            return Started(seams, plan, available_bytes)

        yield start
