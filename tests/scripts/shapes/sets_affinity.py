"""Binds itself to one of the CPUs that it may use."""

import os

import torch
from torch import nn


def bind():
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})


def main():
    bind()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(15, 30), nn.Tanh(), nn.Linear(30, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 151):
        x = torch.randn(50, 15)
        y = x.sum(dim=1, keepdim=True).sign()
        loss = nn.functional.soft_margin_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
