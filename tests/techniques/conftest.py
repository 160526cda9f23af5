"""One thread for torch: these trainings are tiny, and tests may run on busy machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from hasten.inside.seams import Seams

from .reading import Reading


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def reading() -> Iterator[Reading]:
    seams = Seams()
    try:
        yield Reading(seams)
    finally:
        seams.undo_all()
