"""Which layers feed a batch norm and nothing else, in one watched pass of all sorts of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.support.flow import Watched


class Net(nn.Module):
    """``way`` says how the pictures go through the layers, and what becomes of the convolution's output."""

    def __init__(self, way: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.other = nn.BatchNorm2d(4)
        self.way = way
        self.kept: Any = None

    def forward(self, pictures: torch.Tensor) -> Any:
        return self.way(self, pictures)


def watched(model: nn.Module) -> list[tuple[Any, Any]]:
    watching = Watched(torch, model)
    watching.run(model, (torch.rand(2, 3, 8, 8),), {})
    return watching.pairs


def straight(net: Any, x: Any) -> Any:
    return net.norm(net.conv(x)).relu()


def test_a_norm_that_follows_directly_is_found() -> None:
    model = Net(straight)
    assert watched(model) == [(model.conv, model.norm)]
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def skip(net: Any, x: Any) -> Any:
    out = net.conv(x)
    return net.norm(out) + out


def keep(net: Any, x: Any) -> Any:
    net.kept = net.conv(x)
    return net.norm(net.kept)


def in_place(net: Any, x: Any) -> Any:
    return net.norm(net.conv(x).relu_())


ELSEWHERE: dict[str, Callable[[Any, Any], Any]] = {
    "a function between": lambda net, x: net.norm(torch.relu(net.conv(x))),
    "changed in place between": in_place,
    "read by a sum too": skip,
    "read by a view": lambda net, x: net.norm(net.conv(x).view(2, 4, 6, 6)),
    "returned too": lambda net, x: (lambda out: {"norm": net.norm(out), "raw": [out]})(net.conv(x)),
    "kept for the loss": keep,
    "two norms": lambda net, x: (lambda out: net.norm(out) + net.other(out))(net.conv(x)),
    "the layer called twice": lambda net, x: net.norm(net.conv(x)) + net.conv(x),
    "the norm called twice": lambda net, x: net.norm(net.norm(net.conv(x))),
    "a functional norm": lambda net, x: nn.functional.batch_norm(
        net.conv(x), net.norm.running_mean, net.norm.running_var, training=True
    ),
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_an_output_that_goes_elsewhere_is_left_alone(way: str) -> None:
    assert watched(Net(ELSEWHERE[way])) == []


def changed(**how: Any) -> Net:
    model = Net(straight)
    for name, change in how.items():
        change(getattr(model, name))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "a norm in evaluation mode": lambda: changed(norm=lambda norm: norm.eval()),
    "a frozen weight": lambda: changed(conv=lambda conv: conv.weight.requires_grad_(False)),
    "a frozen bias": lambda: changed(conv=lambda conv: conv.bias.requires_grad_(False)),
    "a hook of the script's": lambda: changed(conv=lambda conv: conv.register_forward_hook(lambda *_: None)),
    "a parametrized layer": lambda: changed(conv=nn.utils.parametrizations.weight_norm),
}


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_that_is_not_plain_is_left_alone(model: str) -> None:
    assert watched(MODELS[model]()) == []


def test_no_bias_is_nothing_to_find() -> None:
    assert watched(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))) == []


def test_a_class_of_the_scripts_own_is_left_alone() -> None:
    class Scaled(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    assert watched(nn.Sequential(Scaled(3, 4, 3), nn.BatchNorm2d(4))) == []


def test_linear_layers_and_every_dimension_are_found() -> None:
    model = nn.Sequential(
        nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(400, 6), nn.BatchNorm1d(6)
    )
    assert watched(model) == [(model[0], model[1]), (model[3], model[4])]
