"""DeepDream: a picture climbs the gradient of a frozen network's activations, without an optimizer."""

import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU())

    def forward(self, x):
        return self.body(self.stem(x))


torch.manual_seed(0)
features = Features().eval()
for parameter in features.parameters():
    parameter.requires_grad = False
image = torch.rand(1, 3, 32, 32)
for step in range(1, 121):
    image.requires_grad_(True)
    loss = features(image).norm()
    loss.backward()
    slope = image.grad / (image.grad.abs().mean() + 1e-8)
    image = (image.detach() + 0.01 * slope).clamp(0, 1)
    print("step", step, loss.item())
