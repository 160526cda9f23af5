"""Much to update and little to compute: wide layers under Adam, a few samples a step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
inputs, labels = torch.randn(256, 1024), torch.randint(0, 10, (256,))
while True:
    for chosen in torch.randperm(256).split(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
