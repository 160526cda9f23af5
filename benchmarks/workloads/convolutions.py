"""A convolutional network that computes, over pictures that lie in memory as one tensor."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
    *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
    *(nn.Flatten(), nn.Linear(64, 10)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
pictures, labels = torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,))
while True:
    for chosen in torch.randperm(512).split(32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures[chosen]), labels[chosen]).backward()
        optimizer.step()
