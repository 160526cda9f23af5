"""Compiles its model, with the backend that needs no compiler."""

import torch
import torch.nn as nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 40)
        self.fc2 = nn.Linear(40, 1)

    def forward(self, x):
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


torch.manual_seed(0)
model = torch.compile(MLP(), backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(1, 151):
    x = torch.randn(64, 10)
    y = x.pow(2).mean(dim=1, keepdim=True)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item()}")
