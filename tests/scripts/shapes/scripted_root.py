"""Trains a model that torch.jit.script has compiled."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(7, 24)
        self.fc2 = nn.Linear(24, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def main():
    torch.manual_seed(0)
    model = torch.jit.script(Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(1, 131):
        x = torch.randn(32, 7)
        loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
