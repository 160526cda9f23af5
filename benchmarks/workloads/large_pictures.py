"""Convolutions of few channels over large pictures, with biases, each followed by a batch norm."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [(3, 8), (8, 8), (8, 8), (8, 16)]
model = nn.Sequential(
    *(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in layers),
    *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
pictures, labels = torch.randn(64, 3, 128, 128), torch.randint(0, 10, (64,))
while True:
    for chosen in torch.randperm(64).split(16):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures[chosen]), labels[chosen]).backward()
        optimizer.step()
