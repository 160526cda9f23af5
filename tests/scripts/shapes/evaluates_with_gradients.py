"""Evaluates by model.eval() alone, as many tutorials forget torch.no_grad()."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 6)
y = x[:, :1] * x[:, 1:2]
train_loader = DataLoader(TensorDataset(x[:720], y[:720]), batch_size=24, shuffle=True)
valid_loader = DataLoader(TensorDataset(x[720:], y[720:]), batch_size=48)

model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()

step = 0
for _epoch in range(5):
    model.train()
    for inputs, targets in train_loader:
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
    model.eval()
    total = 0.0
    for inputs, targets in valid_loader:
        total += criterion(model(inputs), targets).item()
    print(f"valid {total:.4f}")
