"""The model returns a dataclass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Output:
    logits: Tensor
    hidden: Tensor
    loss: Tensor | None = None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 32)
        self.second = nn.Linear(32, 2)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Output:
        hidden = self.first(x).tanh()
        logits = self.second(hidden)
        loss = None if y is None else nn.functional.cross_entropy(logits, y)
        return Output(logits, hidden, loss)


def main() -> None:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(1, 151):
        x = torch.randn(48, 10)
        y = (x[:, 0] > x[:, 1]).long()
        output = net(x, y)
        assert output.loss is not None
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        print(f"step {step} {output.loss.item()}")


if __name__ == "__main__":
    main()
