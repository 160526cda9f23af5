"""A residual network of 3x3 convolutions over pictures that lie in the GPU's memory."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm_1(self.first(x)))
        return torch.relu(x + self.norm_2(self.second(y)))


model = nn.Sequential(
    *(nn.Conv2d(3, 128, 3, padding=1), Block(128), Block(128), nn.MaxPool2d(2), Block(128), Block(128)),
    *(nn.Conv2d(128, 256, 3, padding=1), nn.MaxPool2d(2), Block(256), Block(256)),
    *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
pictures = torch.randn(2048, 3, 32, 32, device=device)
labels = torch.randint(0, 10, (2048,), device=device)
while True:
    for chosen in torch.randperm(2048, device=device).split(256):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures[chosen]), labels[chosen]).backward()
        optimizer.step()
