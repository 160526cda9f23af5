"""What a module holds."""

from __future__ import annotations

import torch
from torch import nn

from hasten.inside.internals.modules import holder_of


class Scaled(nn.Module):
    """A parameter of its own, next to its only part."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.scale, self.part = nn.Parameter(torch.ones(())), part


def test_the_holder_is_the_smallest_part_with_all_parameters() -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    two = nn.Sequential(layer, nn.ReLU(), other)
    assert holder_of(two) is two
    assert holder_of(nn.Sequential(nn.Sequential(nn.Dropout(), two), nn.MSELoss())) is two
    assert holder_of(nn.Sequential(nn.ReLU(), layer)) is layer
    scaled = Scaled(layer)
    assert holder_of(nn.Sequential(scaled, nn.ReLU())) is scaled


def test_a_module_without_parameters_is_its_own_holder() -> None:
    loss = nn.Sequential(nn.MSELoss())
    assert holder_of(loss) is loss
    unbiased = nn.Linear(2, 2, bias=False)  # what is None is no parameter
    assert holder_of(nn.Sequential(unbiased)) is unbiased
