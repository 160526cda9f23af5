"""What a script exports by TorchScript, as many do at their end."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hasten.records.plan import Plan
from hasten.testing.workbench import workbench


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
