"""A learning rate schedule that moves at every step (OneCycleLR)."""

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(960, 12)
targets = (inputs.cumsum(dim=1)[:, -1] > 0).float()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True, drop_last=True)

EPOCHS = 5
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = OneCycleLR(optimizer, max_lr=0.2, epochs=EPOCHS, steps_per_epoch=len(loader))
criterion = nn.BCEWithLogitsLoss()

step = 0
for _epoch in range(EPOCHS):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
        print(f"step {step} {loss.item()} lr {scheduler.get_last_lr()[0]:.5f}")
