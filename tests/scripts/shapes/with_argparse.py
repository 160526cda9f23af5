"""Takes its number of steps and learning rate from the command line."""

import argparse

import torch
from torch import nn


def parse_args():
    parser = argparse.ArgumentParser(description="Fit a small network to a wave.")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--lr", type=float, default=1e-2)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(1, args.steps + 1):
        x = torch.rand(64, 1) * 4 - 2
        loss = nn.functional.mse_loss(model(x), torch.sin(2 * x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item()!r}")


if __name__ == "__main__":
    main()
