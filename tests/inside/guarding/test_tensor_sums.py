"""How far tensors are apart: numbers that can be added up, also where some are infinite."""

from __future__ import annotations

import math

import pytest
import torch

from hasten.inside.guarding.tensor_sums import change, sums_of

INF = math.inf


def test_sums_are_those_of_squares_and_products() -> None:
    assert sums_of(torch, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])) == [25.0, 11.0, 8.0]
    assert sums_of(torch, None, torch.tensor([3.0, 4.0])) == [25.0, 0.0, 25.0]
    assert sums_of(torch, torch.tensor([1.0]), torch.tensor([2.0]), explained=1.0) == [4.0, 2.0, 0.0]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("ours", "reference", "sums"),
    [
        ([1.0, -INF], [1.0, -INF], [1.0, 1.0, 0.0]),
        ([1.0, -INF], [2.0, -INF], [4.0, 2.0, 1.0]),
        ([1.0, -INF], [1.0, INF], None),
        ([1.0, INF], [1.0, 5.0], None),
        ([1.0, math.nan], [1.0, math.nan], None),
    ],
    ids=["the same", "with another number", "of another sign", "in one of them", "no numbers"],
)
def test_a_first_number_is_an_infinite_change(
    ours: list[float], reference: list[float], sums: list[float] | None
) -> None:
    """What measures ranges for quantization begins with infinite ones."""
    found = sums_of(torch, torch.tensor(ours), torch.tensor(reference))
    assert found == sums if sums is not None else not math.isfinite(found[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_infinity_that_stays_is_no_change(dtype: torch.dtype) -> None:
    after, before = (torch.tensor(values, dtype=dtype) for values in ([3.0, INF, 1.0], [1.0, INF, INF]))
    assert change(after, before).tolist() == [2.0, 0.0, -INF]
