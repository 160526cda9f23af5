"""Derivatives by torch.func, as vmap over grad of functional_call, are what the loss is made of."""

import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def value(x):
        return functional_call(model, dict(model.named_parameters()), (x.unsqueeze(0),)).squeeze()

    for step in range(1, 121):
        x = torch.rand(32) * 3
        residual = vmap(grad(value))(x) + vmap(value)(x)
        start = value(torch.zeros(())) - 1
        slope = jvp(value, (torch.zeros(()),), (torch.ones(()),))[1] + 1
        loss = residual.pow(2).mean() + start.pow(2) + 0.1 * slope.pow(2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
