"""A penalty on the gradient by the input, so that backward runs through a backward (create_graph)."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Softplus(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = Energy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(1, 151):
        x = torch.randn(32, 3, requires_grad=True)
        energy = model(x)
        (slope,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        fit = F.mse_loss(energy, x.detach().pow(2).sum(dim=1))
        penalty = F.mse_loss(slope, 2 * x.detach())
        loss = fit + 0.5 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item()}")


main()
