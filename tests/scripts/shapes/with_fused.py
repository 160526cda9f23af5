"""Asks for the fused form of Adam itself."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(700, 3)
y = (x[:, :1] - 0.5) * (x[:, 1:2] - 0.5) * 8
loader = DataLoader(TensorDataset(x, y), batch_size=28, shuffle=True)

net = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3, fused=True)

n = 0
for _epoch in range(6):
    for xb, yb in loader:
        loss = ((net(xb) - yb) ** 2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        n += 1
        print("step", n, loss.item())
