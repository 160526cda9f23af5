"""Weights have noise for one pass, and what the script does to them meanwhile is done to its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hasten.inside.guarding.noisy_weights import NoisyWeights

SIZE = 1e-3


def noise(weight: Tensor) -> Tensor:
    return weight.detach() * SIZE * torch.sign(torch.arange(weight.numel()).view_as(weight) - 2.5)


def called(module: nn.Module, *inputs: Any) -> Any:
    weights = NoisyWeights(torch, module, noise)
    try:
        return module(*inputs)
    finally:
        weights.put_back()


def parameters(module: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in module.named_parameters()}


class Seeing(nn.Linear):
    """Keeps the weights that it was called with."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(self.weight)
        return super().forward(x)


def test_the_gradient_comes_to_the_scripts_own_parameter() -> None:
    layer = Seeing(4, 3)
    own, bias = layer.weight, layer.bias
    called(layer, torch.ones(5, 4)).sum().backward()
    assert layer.weight is own
    assert layer.bias is bias
    assert own.grad is not None
    assert torch.equal(own.grad, torch.full((3, 4), 5.0))
    assert torch.equal(layer.seen[0], own + noise(own))


def test_a_layer_that_is_called_again_has_the_same_noise() -> None:
    """A lower precision rounds a weight once."""

    class Tree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Seeing(4, 4)

        def forward(self, x: Tensor, depth: int = 2) -> Tensor:
            x = self.layer(x)
            x = self(x, depth - 1) if depth else x
            out: Tensor = self.layer(x)
            return out

    tree = Tree()
    called(tree, torch.ones(2, 4))
    assert len(tree.layer.seen) == 6
    assert all(weight is tree.layer.seen[0] for weight in tree.layer.seen)
    assert tree.layer.seen[0] is not tree.layer.weight


def test_what_a_hook_counts_at_a_parameter_is_the_scripts() -> None:
    """As in training with differential privacy, which keeps gradients of single samples there."""
    layer: Any = nn.Linear(4, 3)
    layer.weight.passes, own = 0, layer.weight

    def count(module: nn.Module, inputs: object, output: object) -> None:
        for parameter in module.parameters():
            if parameter.dim() > 1:
                counted: Any = parameter
                counted.passes += 1
                counted.seen = [inputs]

    layer.register_forward_hook(count)
    called(layer, torch.ones(5, 4)).sum().backward()
    assert layer.weight is own
    assert own.passes == 1
    assert len(own.seen) == 1


def test_weights_that_are_shared_have_one_noise() -> None:
    first, second = Seeing(4, 4), Seeing(4, 4)
    second.weight = first.weight
    called(nn.Sequential(first, second), torch.ones(2, 4))
    assert first.seen[0] is second.seen[0]
    assert first.weight is second.weight


def test_weights_used_past_their_own_layer_have_noise() -> None:
    """torch hands the last weights of an attention to a function."""
    attention = nn.MultiheadAttention(8, 2)
    before = parameters(attention)
    weights = NoisyWeights(torch, attention, noise)
    assert not isinstance(attention.out_proj.weight, nn.Parameter)
    weights.put_back()
    assert parameters(attention) == before


@pytest.mark.parametrize("how", ["data", "in place", "another"])
def test_what_the_script_does_to_a_weight_in_its_pass_stays(how: str) -> None:
    """Layers of bounded norm, and moving averages."""

    class Halving(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                if how == "data":
                    self.weight.data = self.weight.data / 2
                elif how == "in place":
                    self.weight.mul_(0.5)
                else:
                    self.weight = nn.Parameter(self.weight / 2)
            return super().forward(x)

    layer = Halving(4, 3)
    own, before = layer.weight, layer.weight.detach().clone()
    called(layer, torch.ones(2, 4))
    assert isinstance(layer.weight, nn.Parameter)
    assert (layer.weight is own) == (how != "another")
    assert torch.allclose(layer.weight, before / 2, rtol=2 * SIZE)
    assert not torch.allclose(layer.weight, before, rtol=0.1)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_rows_that_are_looked_up_are_taken_as_they_are(kind: Any) -> None:
    model = nn.Sequential(kind(50, 8))
    rows = torch.tensor([[1, 2]])
    assert torch.equal(called(model, rows), model(rows))


def test_layers_whose_shapes_are_not_known_yet_are_left_alone() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    assert called(model, torch.ones(2, 5)).shape == (2, 2)
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")  # of torch 2.15
def test_a_part_in_torchscript_is_left_alone() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(3, 3)), nn.Linear(3, 2))
    before = parameters(model)
    assert called(model, torch.ones(2, 3)).shape == (2, 2)
    assert parameters(model).keys() == before.keys()


def test_parametrized_weights_have_noise_in_what_they_are_made_of() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    before = parameters(layer)
    x = torch.ones(2, 4)
    assert not torch.equal(called(layer, x), layer(x))
    assert parameters(layer) == before


def test_a_pass_that_raises_leaves_the_scripts_own() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    before = parameters(model)
    with pytest.raises(RuntimeError, match="shapes"):
        called(model, torch.ones(2, 3))
    assert parameters(model) == before
