"""Sets OMP_NUM_THREADS before it imports torch."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn

print("threads", torch.get_num_threads())

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 20))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(1, 141):
    x = torch.randn(64, 20)
    loss = nn.functional.mse_loss(model(x), x.flip(dims=[1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
