"""When two machines are the same to a plan, and how many cores can run."""

from __future__ import annotations

from typing import Any

import pytest

from ..bench.made_up import machine


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_model": "Abacus"},
        {"physical_cores": 2},
        {"quota_cpus": 1.5},
        {"memory_bytes": 8 * 2**30},
        {"system": "Darwin"},
        {"architecture": "aarch64"},
        {"accelerators": ("H200",)},
    ],
)
def test_another_machine(changes: dict[str, Any]) -> None:
    assert machine(**changes).identity != machine().identity


@pytest.mark.parametrize(
    "changes",
    [{"available_bytes": 1}, {"memory_bytes": 16 * 2**30 - 2**20}, {"environment": {"OMP_PLACES": "cores"}}],
)
def test_the_same_machine(changes: dict[str, Any]) -> None:
    assert machine(**changes).identity == machine().identity


@pytest.mark.parametrize(
    ("quota", "usable"),
    [(None, 4), (8.0, 4), (4.0, 4), (2.0, 2), (1.5, 2), (1.4, 1), (0.2, 1)],
)
def test_cores_that_can_run_at_once(quota: float | None, usable: int) -> None:
    assert machine(quota_cpus=quota).usable_cpus == usable
