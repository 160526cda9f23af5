"""Moves everything to the GPU without asking whether there is one."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(1, 121):
        x = torch.randn(32, 8).cuda()
        loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
