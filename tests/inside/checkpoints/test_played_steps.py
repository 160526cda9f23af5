"""A step that is played back leaves an optimizer's state behind, and moves nothing."""

from __future__ import annotations

import torch
from torch import nn

from hasten.inside.checkpoints.played_steps import PlayedSteps


def step(played: PlayedSteps, optimizer: torch.optim.Optimizer) -> None:
    played.begin(optimizer)
    optimizer.step()
    played.end(optimizer)


def test_the_first_makes_the_state_and_none_moves_anything() -> None:
    model, played = nn.Linear(3, 2), PlayedSteps(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    before = [one.detach().clone() for one in model.parameters()]
    given = model.weight.grad = torch.ones(2, 3)
    for _ in range(2):
        step(played, optimizer)
    assert all(torch.equal(one, was) for one, was in zip(model.parameters(), before, strict=True))
    assert model.weight.grad is given
    assert set(optimizer.state) == {model.weight}
    assert optimizer.state[model.weight]["step"] == 1


def test_a_parameter_with_its_first_gradient_gets_its_state() -> None:
    model, played = nn.Linear(3, 2), PlayedSteps(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
        step(played, optimizer)
    assert len(optimizer.state) == 2
    optimizer.state.clear()
    step(played, optimizer)
    assert len(optimizer.state) == 2
