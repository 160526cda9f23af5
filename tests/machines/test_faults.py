"""Faults of a training on two hosts: it goes on, or it ends in time and names what was at fault.

Every one really happens: see faults/happening.py. What is expected of each is in faults/table.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .cluster import Cluster, until
from .faults.bed import OURS, OWN, Bed, in_one_process
from .faults.table import FAULTS, Fault


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """What scripts end with where nothing happens, in one process."""
    folder: Path = tmp_path_factory.mktemp("alone")
    return {script: in_one_process(folder / script.removesuffix(".py"), script) for script in (OWN, OURS)}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, id=one.key, marks=() if one.quick else pytest.mark.thorough) for one in FAULTS],
)
def test_a_fault_ends_as_it_must(cluster: Cluster, expected: dict[str, list[float]], fault: Fault) -> None:
    bed = Bed(cluster, fault.script)
    seen = fault.happens(bed)
    assert fault.wrong(seen, expected[fault.script]) == [], seen.text
    until(lambda: bed.ranks() == [])  # what was cut off ends by itself
