"""Trains three small models, one after another, to compare them."""

import torch
from torch import nn


class Polynomial(nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.coefficients = nn.Parameter(torch.zeros(degree + 1))

    def forward(self, x):
        powers = torch.stack([x**i for i in range(len(self.coefficients))], dim=-1)
        return powers @ self.coefficients


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x.unsqueeze(-1)).squeeze(-1)


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.amplitude = nn.Parameter(torch.tensor(0.5))
        self.frequency = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.amplitude * torch.sin(self.frequency * x)


def target(x):
    return torch.sin(2.5 * x)


step = 0


def fit(model, lr):
    global step
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(50):
        x = torch.rand(64) * 2 - 1
        loss = (model(x) - target(x)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    scores = {}
    for model, lr in [(Polynomial(3), 0.05), (Network(16), 0.02), (Wave(), 0.05)]:
        scores[type(model).__name__] = fit(model, lr)
    print("best:", min(scores, key=scores.get))
