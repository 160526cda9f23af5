"""LBFGS, which evaluates its closure several times in one step."""

import torch
import torch.nn as nn


def main():
    torch.manual_seed(0)
    x = torch.linspace(-3, 3, 200).unsqueeze(1)
    y = torch.sin(3 * x) + 0.3 * x
    model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    for step in range(1, 121):
        loss = optimizer.step(closure)
        print(f"step {step} {loss.item()!r}")


if __name__ == "__main__":
    main()
