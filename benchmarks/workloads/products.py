"""A perceptron of wide layers and large batches: nearly all of a step is products of float32 matrices."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs, labels = torch.randn(8192, 2048), torch.randint(0, 16, (8192,))
while True:
    for chosen in torch.randperm(8192).split(2048):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
