"""Embeddings with ``sparse=True``: what torch's kernels take of their gradients, and what raises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hasten.inside.training import NotApplicable
from hasten.records.plan import Plan
from hasten.testing.workbench import workbench

# of Adagrad's own, where it makes sparse tensors
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")


class Ratings(nn.Module):
    """A table whose gradients are sparse, next to a layer whose gradients are not."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(20, 8, sparse=True)
        self.out = nn.Linear(8, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.users(torch.arange(len(inputs))))
        return found


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_a_fused_update_would_raise_in_the_scripts_step(name: str) -> None:
    with workbench() as bench:
        bench.model = Ratings()
        bench.optimizer = getattr(torch.optim, name)(bench.model.parameters(), lr=1e-2)
        bench.train(2)
        bench.optimizer.zero_grad(set_to_none=True)  # nothing shows it now but the module
        with pytest.raises(NotApplicable, match="takes no sparse gradients"):
            bench.switchboard.switch(Plan({"fused_optimizer": {}}))
        bench.train(1)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_they_are_updated_by_foreach(name: str) -> None:
    with workbench() as bench:
        bench.model = Ratings()
        bench.optimizer = getattr(torch.optim, name)(bench.model.parameters(), lr=1e-2)
        bench.train(2)
        bench.switchboard.switch(Plan({"fused_optimizer": {"form": "foreach"}}))
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert proof.evidence == "2 foreach updates"
