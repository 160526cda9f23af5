"""How many operators a backward pass goes through."""

from __future__ import annotations

import pytest
import torch

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
