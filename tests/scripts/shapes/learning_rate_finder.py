"""Looks for a learning rate by training with growing ones until the loss is large, then puts the weights back
and trains.
"""

import copy

import torch
from torch import nn


def batch():
    x = torch.randn(32, 8)
    return x, x[:, :1] * 2 + x[:, 1:2]


def train_step(model, optimizer):
    x, y = batch()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def find_rate(model, steps):
    kept = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    best, best_rate = float("inf"), 0.0
    for _ in range(100):
        loss = train_step(model, optimizer)
        steps.append(loss)
        print("step", len(steps), loss)
        rate = optimizer.param_groups[0]["lr"]
        if loss < best:
            best, best_rate = loss, rate
        if loss > 4 * best:
            break
        optimizer.param_groups[0]["lr"] = rate * 1.2
    model.load_state_dict(kept)
    return best_rate / 4


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    steps = []
    rate = find_rate(model, steps)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    while len(steps) < 200:
        loss = train_step(model, optimizer)
        steps.append(loss)
        print("step", len(steps), loss)


if __name__ == "__main__":
    main()
