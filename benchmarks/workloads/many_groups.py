"""A parameter group for each of 300 small parameters, fused: two sets of hyperparameters in all."""

import torch
from torch import nn

torch.manual_seed(0)
blocks = [m for _ in range(75) for m in (nn.LayerNorm(32), nn.Linear(32, 32))]
model = nn.Sequential(*blocks, nn.Linear(32, 10))
groups = [{"params": [p], "weight_decay": 0.05 if p.ndim > 1 else 0.0} for p in model.parameters()]
optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
inputs, labels = torch.randn(256, 32), torch.randint(0, 10, (256,))
while True:
    for chosen in torch.randperm(256).split(8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
