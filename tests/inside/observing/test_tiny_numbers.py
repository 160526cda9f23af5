"""Numbers below 1.2e-38: what they cost, and when an optimizer's averages become so small."""

from __future__ import annotations

import math

import pytest
import torch

from hasten.inside.observing.identify import describe_optimizer
from hasten.inside.observing.tiny_numbers import (
    SMALLEST,
    extra_seconds,
    kept_share,
    silent,
    steps_until_tiny,
    tiny_averages,
)


def test_what_a_product_takes_longer_is_no_less_than_nothing() -> None:
    found = extra_seconds(torch)
    assert 0.0 <= found < 1e-6
    assert extra_seconds(torch) == found, "timed once a process"


def weights() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (lambda p: torch.optim.Adam(p), 0.9),
        (lambda p: torch.optim.AdamW(p, betas=(0.95, 0.999)), 0.95),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8), 0.8),
        (lambda p: torch.optim.SGD(p, lr=0.1), 0.0),
        (lambda p: torch.optim.RMSprop(p), 0.0),
        (lambda p: torch.optim.Adam(p, betas=(torch.tensor(0.7), torch.tensor(0.9)), foreach=False), 0.7),
    ],
)  # fmt: skip
def test_how_much_of_an_average_a_step_keeps(make: object, kept: float) -> None:
    assert callable(make)
    assert kept_share(make(weights())) == pytest.approx(kept)


def test_what_says_nothing_of_that_keeps_nothing() -> None:
    optimizer = torch.optim.SGD(weights(), lr=0.1)
    optimizer.param_groups[0]["momentum"] = "much"
    assert kept_share(optimizer) == 0.0


@pytest.mark.parametrize("kept", [0.5, 0.9, 0.95])
def test_an_average_without_gradients_is_too_small_after_so_many_steps(kept: float) -> None:
    steps = steps_until_tiny(kept)
    assert 1e-3 * kept**steps < SMALLEST < 1e-3 * kept ** (steps * 0.85)


@pytest.mark.parametrize("kept", [0.0, 1.0, -0.5, math.nan])
def test_where_nothing_decays_nothing_becomes_small(kept: float) -> None:
    assert steps_until_tiny(kept) == 0


def test_only_dense_float32_gradients_on_the_cpu_are_counted() -> None:
    some, none, half = weights()[0], weights()[1], torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    some.grad = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    half.grad = torch.zeros(5, dtype=torch.float64)
    rows = torch.nn.Embedding(8, 2, sparse=True)
    rows(torch.tensor([1])).sum().backward()
    assert silent(torch, [some, none, half, rows.weight]) == 3


class Spread(torch.Tensor):
    """Stands for a tensor that is spread over ranks."""

    def count_nonzero(self, dim: object = None) -> torch.Tensor:  # type: ignore[override]
        raise AssertionError("the other ranks would have to do so, too")


def test_what_is_spread_over_ranks_is_not_looked_into() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.zeros(3).as_subclass(Spread)
    assert silent(torch, [weight]) == 0


def test_the_record_of_an_optimizer_has_both() -> None:
    (first, second) = weights()
    optimizer = torch.optim.Adam([first, second])
    first.grad, second.grad = torch.zeros(2, 3), torch.ones(4)
    found = describe_optimizer(torch, optimizer)
    assert (found.kept, found.silent) == (0.9, 6)


def test_averages_that_are_too_small_are_found_where_they_are() -> None:
    first, second = weights()
    optimizer = torch.optim.Adam([first, second])
    first.grad, second.grad = torch.ones(2, 3), torch.ones(4)
    optimizer.step()
    assert list(tiny_averages(torch, [optimizer])) == []
    optimizer.state[first]["exp_avg"][0] = torch.tensor([1e-40, 0.0, -1e-42])
    ((_, numbers, places),) = tiny_averages(torch, [optimizer])
    assert places.tolist() == [[True, False, True], [False, False, False]]
    assert numbers.data_ptr() == optimizer.state[first]["exp_avg"].data_ptr()
