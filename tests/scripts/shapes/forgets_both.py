"""Validates in training mode and with gradients enabled: neither eval() nor no_grad(), a loader each."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(720, 8)
y = torch.sin(x[:, :1]) + 0.1 * torch.randn(720, 1)
train = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=24, shuffle=True)
valid = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=24)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
step = 0
for epoch in range(7):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
    total = 0.0
    for inputs, targets in valid:
        total += nn.functional.mse_loss(model(inputs), targets).item()
    print("epoch", epoch, total / len(valid))
