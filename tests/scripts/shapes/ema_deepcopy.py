"""Keeps an exponential moving average of the weights in a deep copy of the model."""

import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.95):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for average, p in zip(self.module.parameters(), model.parameters(), strict=True):
            average.mul_(self.decay).add_(p, alpha=1 - self.decay)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


def batch(n):
    x = torch.randn(n, 4)
    return x, x.square().sum(dim=1, keepdim=True) + 0.1 * torch.randn(n, 1)


def main():
    torch.manual_seed(0)
    model = Regressor()
    ema = EMA(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(1, 151):
        x, y = batch(32)
        loss = nn.functional.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        print("step", step, loss.item())
    x, y = batch(200)
    with torch.no_grad():
        print("average", nn.functional.smooth_l1_loss(ema.module(x), y).item())


if __name__ == "__main__":
    main()
