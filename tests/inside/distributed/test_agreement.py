"""What is reported about gradients of slices, compared with that of the whole batch."""

from __future__ import annotations

import torch

from hasten.inside.distributed.agreement import Agreement

SIZE = 4000


def agreement(weights: list[float], shares: list[float], noise: float = 0.0) -> Agreement:
    """One process's gradient is the slices' by ``weights``, with relative noise."""
    generator = torch.Generator().manual_seed(1)
    common = torch.randn(SIZE, generator=generator, dtype=torch.float64)
    parts = torch.randn(len(shares), SIZE, generator=generator, dtype=torch.float64) + common
    whole = torch.tensor(weights, dtype=torch.float64) @ parts
    whole = whole + noise * whole.norm() / SIZE**0.5 * torch.randn(SIZE, generator=generator).double()
    found = Agreement(shares, [share > 0 for share in shares])
    for a, b in ((0, 1000), (1000, SIZE)):
        found.add(whole[a:b], parts[:, a:b])
    return found


def test_means_and_sums_are_told_apart() -> None:
    assert agreement([0.6, 0.4], [0.6, 0.4]).kinds("float64") == ["mean"]
    assert agreement([1.0, 1.0], [0.6, 0.4]).kinds("float64") == ["sum"]
    assert agreement([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]).kinds("float32") == ["sum"]


def test_units_that_turn_under_rounding_are_let_through_in_float32_alone() -> None:
    turned = agreement([0.5, 0.5], [0.5, 0.5], noise=5e-3)
    assert turned.kinds("float32") == ["mean"]
    assert turned.kinds("float64") == []


def test_a_slightly_wrong_denominator_is_seen_below_that_noise() -> None:
    """It moves the gradient by less than units that turn, but all in one direction."""
    wrong = agreement([0.51, 0.49], [0.5, 0.5], noise=5e-3)
    assert wrong.residual("mean") < 0.02
    assert wrong.kinds("float32") == []
    assert "would have to weigh 0.51 and 0.49, where they hold 0.5 and 0.5" in wrong.why_not("float32")


def test_what_no_weights_explain_is_told_as_such() -> None:
    found = agreement([0.5, 0.5], [0.5, 0.5], noise=0.5)
    assert found.kinds("lower") == []
    assert "depends on the others of its batch" in found.why_not("float32")


def test_no_gradient_at_all_agrees_with_everything() -> None:
    found = Agreement([0.5, 0.5], [True, True])
    assert found.kinds("float64") == ["mean", "sum"]


def test_numbers_that_are_none_are_told() -> None:
    found = Agreement([0.5, 0.5], [True, True])
    found.add(torch.full((3,), torch.nan).double(), torch.ones(2, 3).double())
    assert found.kinds("float32") == []
    assert "not a number" in found.why_not("float32")
