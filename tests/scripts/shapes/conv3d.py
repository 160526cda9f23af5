"""Convolutions over volumes: batches of five dimensions."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(2, (240,))
volumes = torch.randn(240, 1, 6, 8, 8)
volumes[labels == 1, :, 2:4, 2:6, 2:6] += 1.5
loader = DataLoader(TensorDataset(volumes, labels), batch_size=8, shuffle=True)

model = nn.Sequential(
    nn.Conv3d(1, 4, kernel_size=3, padding=1),
    nn.ReLU(),
    nn.MaxPool3d(2),
    nn.Flatten(),
    nn.Linear(4 * 3 * 4 * 4, 2),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()

step = 0
for _epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
