"""Prints 100 MB in all: a long dump after each step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
x = torch.randn(200, 10)
y = x.mean(dim=1, keepdim=True)

for step in range(1, 61):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
    row = " ".join(f"{value:.4f}" for value in model[2].weight[0, :12].tolist())
    for _ in range(60):
        print("\n".join([f"debug {row:<93}"] * 278))
