"""Ends after five steps."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(50, 3)
y = x @ torch.tensor([[2.0], [-1.0], [0.5]])
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for step in range(1, 6):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
