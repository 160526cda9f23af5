"""One thread for torch: these trainings are tiny, and tests may run on busy machines. A ground to protect, a
training to watch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
import torch

from hasten.inside.sandbox.overlay_folders import remove_layers
from hasten.inside.seams import Seams

from .ground import Ground, make_ground, why_no_overlay
from .users import NOBODY, python_for
from .watching import Watch


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["root", "user"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """For tests of protection: as root, and as somebody else."""
    is_root = os.geteuid() == 0
    if request.param == "root" and not is_root:
        pytest.skip("the tests do not run as root")
    user = NOBODY if request.param == "user" and is_root else None
    if reason := why_no_overlay(user, tempfile.gettempdir()):
        pytest.skip(reason)
    if not python_for(user):
        pytest.skip("there is no Python >= 3.10 that an unprivileged user may run")
    made = make_ground(user)
    yield made
    remove_layers(str(made.base))


@pytest.fixture
def watch(seams: Seams) -> Watch:
    return Watch(seams)
