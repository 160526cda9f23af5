"""One thread for torch: these trainings are tiny, and tests may run on busy machines."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from hasten.inside.seams import Seams
from hasten.records.plan import Plan

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
def started_under() -> Iterator[StartUnder]:
    """A reading under the plan that is asked for, as from a process' start; a test may start several."""
    with ExitStack() as stack:

        def start(plan: Plan, available_bytes: int = 2**32) -> Started:
            seams = Seams()
            stack.callback(seams.undo_all)
            return Started(seams, plan, available_bytes)

        yield start
