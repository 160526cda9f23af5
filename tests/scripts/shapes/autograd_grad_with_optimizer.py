"""Gradients come from torch.autograd.grad and are put into p.grad for the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
params = list(model.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2)

for step in range(1, 151):
    x = torch.randn(36, 5)
    y = x.max(dim=1, keepdim=True).values
    loss = nn.functional.mse_loss(model(x), y)
    for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
        p.grad = g
    optimizer.step()
    print("step", step, loss.item())
