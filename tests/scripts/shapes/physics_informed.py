"""A physics-informed network: the loss is a differential equation's residual."""

import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)
        )

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], dim=1))


def derivative(y, x):
    return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(1, 121):
    optimizer.zero_grad()
    x = torch.rand(64, 1, requires_grad=True)
    t = torch.rand(64, 1, requires_grad=True)
    u = net(x, t)
    u_t, u_x = derivative(u, t), derivative(u, x)
    residual = (u_t - 0.1 * derivative(u_x, x)).pow(2).mean()
    x0 = torch.rand(32, 1)
    initial = (net(x0, torch.zeros_like(x0)) - torch.sin(math.pi * x0)).pow(2).mean()
    loss = residual + initial
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
