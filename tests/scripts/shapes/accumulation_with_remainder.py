"""Gradients of four batches are accumulated; an epoch's last two batches make a smaller step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

torch.manual_seed(0)
x = torch.randn(720, 16)
y = (x[:, :2].prod(dim=1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)  # 90 batches

model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()

step = 0
for _epoch in range(7):
    running = 0.0
    waiting = 0
    for i, (inputs, labels) in enumerate(train_loader):
        loss = criterion(model(inputs), labels) / ACCUMULATE
        loss.backward()
        running += loss.item()
        waiting += 1
        if waiting == ACCUMULATE or i + 1 == len(train_loader):
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            print("step", step, running * ACCUMULATE / waiting)
            running, waiting = 0.0, 0
