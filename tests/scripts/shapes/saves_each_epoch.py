"""Saves a file of 8 MB after each epoch, and keeps what it printed by pickle."""

import pickle

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(600, 8)
y = (x[:, 0] > x[:, 1]).float().unsqueeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
history = torch.zeros(2_000_000)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for epoch in range(4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print("step", len(losses), loss.item())
    torch.save({"model": model.state_dict(), "history": history}, f"epoch-{epoch}.pt")
with open("losses.pickle", "wb") as file:
    pickle.dump(losses, file)
