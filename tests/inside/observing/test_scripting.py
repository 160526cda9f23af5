"""What a script exports by TorchScript, as many do at their end."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from hasten.inside.seams import Call
from hasten.inside.warned import count_the_scripts_frames
from hasten.records.plan import Plan
from hasten.testing.workbench import workbench

from ..watching import Watch


class Flattening(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 8 * 8, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.convolution(inputs)
        found: torch.Tensor = self.linear(hidden.view(hidden.size(0), -1))
        return found


pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is")

PLANS = [Plan({}), Plan({"channels_last": {}}), Plan({"bf16": {}}), Plan({"compile": {"backend": "eager"}})]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.key)
def test_a_model_can_be_scripted_and_trained_on(plan: Plan) -> None:
    with workbench() as bench:
        bench.model = Flattening()
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=1e-2)
        bench.train(1)
        bench.switchboard.switch(plan)
        bench.train(2)
        scripted = torch.jit.script(bench.model)
        inputs = torch.randn(5, 3, 8, 8)
        with torch.no_grad():
            assert torch.allclose(scripted(inputs), bench.model(inputs), atol=1e-5)
        bench.train(2)
        assert all(
            proof.effective for proof in bench.switchboard.proofs() if proof.technique != "channels_last"
        )


def test_functions_of_cs_that_are_watched_can_be_scripted(watch: Watch) -> None:
    """``pack_padded_sequence`` calls ``warnings.warn``."""
    count_the_scripts_frames(watch.training.seams)
    watch.training.seams.replace(torch, "randn_like", _through)
    imported = torch.randn_like

    class Warns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.numel() == 0:
                warnings.warn("it is empty", stacklevel=2)
            return torch.randn_like(x) + imported(x)

    assert torch.jit.script(Warns())(torch.ones(2, 3)).shape == (2, 3)


def test_a_model_can_be_scripted_before_its_first_step(watch: Watch) -> None:
    class Uses(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return functional.relu(functional.linear(inputs, self.weight, self.bias))

    before, model = vars(Uses)["forward"], Uses(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = vars(Uses)["forward"]
    scripted = torch.jit.script(model)
    assert torch.equal(scripted(torch.ones(3, 4)), before(model, torch.ones(3, 4)))
    assert vars(Uses)["forward"] is watched is not before
    del optimizer


def _through(original: Call) -> Call:
    def called(*args: object, **kwargs: object) -> object:
        return original(*args, **kwargs)

    return called


def noisy(maps: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(maps) + torch.rand_like(maps)


def test_what_draws_can_be_scripted_while_maps_lie_channels_last() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(Plan({"channels_last": {}}))
        ours = nn.functional.dropout
        model = nn.Sequential(nn.Dropout(), bench.model).eval()
        inputs = torch.randn(5, 3, 8, 8)
        assert torch.allclose(torch.jit.script(model)(inputs), model(inputs), atol=1e-5)
        assert torch.jit.script(noisy)(inputs).shape == inputs.shape
        assert nn.functional.dropout.__code__ is ours.__code__
