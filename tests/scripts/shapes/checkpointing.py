"""Saves model and optimizer in mid-run, makes both anew, loads them and goes on."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = "checkpoint.pt"


def build():
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def train_epoch(model, optimizer, loader, step):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
    return step


torch.manual_seed(0)
x = torch.randn(800, 6)
y = x.abs().sum(dim=1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)

model, optimizer = build()
step = 0
for _ in range(2):
    step = train_epoch(model, optimizer, loader, step)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, CHECKPOINT)

model, optimizer = build()
state = torch.load(CHECKPOINT)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
step = state["step"]
for _ in range(2):
    step = train_epoch(model, optimizer, loader, step)
