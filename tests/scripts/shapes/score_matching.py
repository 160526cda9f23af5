"""Sliced score matching: the divergence of what the network returns, along random directions."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    score = nn.Sequential(nn.Linear(2, 64), nn.Softplus(), nn.Linear(64, 64), nn.Softplus(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(score.parameters(), lr=2e-3)
    centres = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    for step in range(1, 151):
        x = centres[torch.randint(2, (48,))] + 0.3 * torch.randn(48, 2)
        x.requires_grad_()
        direction = torch.randn_like(x)
        found = score(x)
        along = torch.autograd.grad((found * direction).sum(), x, create_graph=True)[0]
        loss = ((along * direction).sum(-1) + 0.5 * (found * direction).sum(-1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


main()
