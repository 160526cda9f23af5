"""Blocks computed twice: the same numbers, counted, and no trace in the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hasten.inside.techniques.base import SAVES_MEMORY
from hasten.inside.techniques.checkpointing import Checkpointing
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench

from .made_up import facts, root

PLAN = Plan({"checkpointing": {}})


def block(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), *more)


def known(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4))
    return optimizer


def test_dropout_masks_are_the_same_the_second_time() -> None:
    gradients = []
    for on in (BASELINE, PLAN):
        with workbench() as bench:
            torch.manual_seed(0)
            model = nn.Sequential(*(block(nn.Dropout(0.5)) for _ in range(3)))
            optimizer = known(model)
            bench.switchboard.switch(on)
            torch.manual_seed(1)
            model(torch.ones(2, 4)).sum().backward()
            gradients.append([p.grad for p in model.parameters()] + [torch.get_rng_state()])
            proofs = bench.switchboard.proofs()
            del optimizer
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert proofs[0].effective
    assert proofs[0].evidence == "3 blocks; 3 forward passes, 3 computed again"


def test_evaluation_keeps_nothing_and_computes_once() -> None:
    with workbench() as bench:
        model = nn.Sequential(block(), block())
        optimizer = known(model)
        bench.switchboard.switch(PLAN)
        with torch.no_grad():
            model(torch.ones(2, 4))
        assert bench.switchboard.proofs()[0].evidence == "2 blocks; 0 forward passes, 0 computed again"
        del optimizer


def test_removal_leaves_the_blocks_as_they_were() -> None:
    with workbench() as bench:
        model = nn.Sequential(block(), block())
        optimizer = known(model)
        keys = list(model.state_dict())
        bench.switchboard.switch(PLAN)
        assert list(model.state_dict()) == keys
        bench.switchboard.switch(BASELINE)
        assert all(module._compiled_call_impl is None for module in model)
        del optimizer


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Sequential(block(nn.BatchNorm1d(4)), block(nn.BatchNorm1d(4))), "batch normalization"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), "children of one class"),
    ],
)
def test_where_it_would_be_wrong_or_useless(make: type[nn.Module], reason: str) -> None:
    with workbench() as bench:
        model = make()
        optimizer = known(model)
        with pytest.raises(NotApplicable, match=reason):
            bench.switchboard.switch(PLAN)
        del optimizer


def test_on_paper() -> None:
    assert Checkpointing.refuse(facts(roots=(root(blocks=4),))) == []
    assert "no repeated blocks" in Checkpointing.refuse(facts())[0]
    assert Checkpointing.not_tried == SAVES_MEMORY
    assert "checkpoint(block" in Checkpointing.by_hand({})
