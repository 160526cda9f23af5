"""How many operators a backward pass goes through."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hasten.inside.observing import operators
from hasten.inside.observing.operators import OperatorsSeen


def seen(*losses: object) -> int | None:
    found = OperatorsSeen()
    for loss in losses:
        found.look(loss)
    return found.usual()


def test_operators_are_counted_and_parameters_are_not() -> None:
    weight = torch.ones(3, requires_grad=True)
    assert seen((weight * 2).sum()) == 2
    assert seen([(weight * 2).sum(), (weight * 3).sum()]) == 4


def test_what_two_ways_lead_to_counts_once() -> None:
    hidden = torch.ones(3, requires_grad=True) * 2
    assert seen((hidden + hidden.sin()).sum()) == 4


def test_of_several_passes_the_usual_one_counts_and_no_more_are_looked_at() -> None:
    weight = torch.ones(3, requires_grad=True)
    short, long = weight.sum(), (weight * 2).sum()
    assert seen(short, long, long) == 2
    found = OperatorsSeen()
    for _ in range(4):
        assert found.wants_more
        found.look(short)
    assert not found.wants_more


def test_nothing_seen_is_not_known() -> None:
    assert seen() is None
    assert seen("no tensor") == 0


def test_a_large_graph_is_not_walked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    value = torch.ones(1, requires_grad=True)
    for _ in range(100):
        value = value * 2
    monkeypatch.setattr(operators, "_MOST_NODES", 10)
    found = seen(value)
    assert found is not None
    assert 10 <= found < 100


def test_a_graph_that_cannot_be_read_fails_no_training() -> None:
    class Strange(torch.Tensor):
        @property
        def grad_fn(self) -> None:  # type: ignore[override]
            raise RuntimeError("no graph")

    assert seen(torch.ones(1).as_subclass(Strange)) == 0


# ---- kinds of them
def found_in(*layers: nn.Module, inputs: tuple[int, ...] = (4, 3, 16, 16)) -> tuple[bool | None, bool | None]:
    """Whether pooling without overlap was seen, and a bias before a batch norm."""
    seen = OperatorsSeen()
    seen.look(nn.Sequential(*layers)(torch.ones(inputs)).sum())
    found = seen.found()
    return found["pools_apart"], found["bias_before_norm"]


@pytest.mark.parametrize(
    ("pooling", "apart"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d(2, stride=2), True),
        (nn.MaxPool2d(3, stride=2, padding=1), False),
        (nn.MaxPool2d(2, stride=1), False),
        (nn.AvgPool2d(2), False),
    ],
)
def test_pooling_without_overlap_is_seen(pooling: nn.Module, apart: bool) -> None:
    assert found_in(nn.Conv2d(3, 8, 3), pooling) == (apart, False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("layer", "norm", "inputs"),
    [
        (partial(nn.Conv2d, 3, 8, 3), nn.BatchNorm2d(8), (4, 3, 16, 16)),
        (partial(nn.ConvTranspose2d, 3, 8, 3), nn.BatchNorm2d(8), (4, 3, 16, 16)),
        (partial(nn.Conv1d, 3, 8, 3), nn.BatchNorm1d(8), (4, 3, 16)),
        (partial(nn.Linear, 3, 8), nn.BatchNorm1d(8), (4, 3)),
    ],
)
def test_a_bias_before_a_batch_norm_is_seen(
    layer: Callable[..., nn.Module], norm: nn.Module, inputs: tuple[int, ...], bias: bool
) -> None:
    assert found_in(layer(bias=bias), norm, inputs=inputs) == (False, bias)


def test_a_bias_elsewhere_is_none_before_a_batch_norm() -> None:
    layers = (
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.Flatten(),
        nn.LazyLinear(4),
        nn.LayerNorm(4),
    )
    assert found_in(*layers) == (False, False)


class Again(nn.Module):
    def forward(self, inputs: torch.Tensor) -> Any:
        return checkpoint(nn.functional.max_pool2d, inputs, 2, use_reentrant=True)


def test_what_computes_out_of_sight_is_not_known() -> None:
    assert found_in(nn.Conv2d(3, 8, 3), Again()) == (None, None)
    assert found_in(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), Again()) == (True, None)


def test_of_a_large_graph_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_MOST_NODES", 3)
    assert found_in(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Tanh(), nn.ReLU()) == (None, None)


def test_nothing_is_known_of_no_pass_or_of_one_that_was_not_read() -> None:
    seen = OperatorsSeen()
    assert seen.found() == {"operators": None, "pools_apart": None, "bias_before_norm": None}
    seen.look(nn.Linear(2, 2)(torch.ones(1, 2)).sum())
    assert seen.found()["pools_apart"] is False
    seen.look("no tensor")
    assert seen.found()["pools_apart"] is None
