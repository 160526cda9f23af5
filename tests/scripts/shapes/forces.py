"""Energies and forces, which are their gradient: the model differentiates itself in its forward pass."""

import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, positions):
        with torch.enable_grad():
            positions = positions.requires_grad_(True)
            apart = positions.unsqueeze(1) - positions.unsqueeze(2)
            square = apart.pow(2).sum(-1, keepdim=True)
            energy = self.net(square).sum(dim=(1, 2, 3))
            (slope,) = torch.autograd.grad(energy.sum(), positions, create_graph=self.training)
        return energy, -slope


def truth(positions):
    apart = positions.unsqueeze(1) - positions.unsqueeze(2)
    energy = apart.pow(2).sum(dim=(1, 2, 3)) / 2
    return energy, -2 * apart.sum(1).mul(-1)


def main():
    torch.manual_seed(0)
    model = Potential()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step = 0
    for _ in range(3):
        model.train()
        for _ in range(45):
            positions = torch.randn(16, 4, 3)
            wanted = truth(positions)
            energy, force = model(positions)
            loss = nn.functional.mse_loss(energy, wanted[0]) / 10 + nn.functional.mse_loss(force, wanted[1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        model.eval()
        positions = torch.randn(64, 4, 3)
        with torch.no_grad():
            energy, force = model(positions)
        print("validation", nn.functional.l1_loss(force, truth(positions)[1]).item())


if __name__ == "__main__":
    main()
