"""Clips the gradients' norm before each step."""

import torch
from torch import nn


class Memory(nn.Module):
    """Says at a sequence's end what stood at its beginning."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        _, h = self.rnn(x)
        return self.out(h[-1])


torch.manual_seed(0)
model = Memory()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 161):
    x = torch.randn(40, 6, 1)
    loss = (model(x) - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    print(f"step {step} {loss.item()} norm {norm.item():.3f}")
