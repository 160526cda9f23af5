"""Validates every 20 steps, with model.eval() and without gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
x = torch.randn(1200, 8)
y = ((x[:, 0] + x[:, 1] * x[:, 2]) > 0).long()
train_set, valid_set = random_split(TensorDataset(x, y), [960, 240])
train_loader = DataLoader(train_set, batch_size=24, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=60)

model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()


def validate():
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, labels in valid_loader:
            correct += (model(inputs).argmax(dim=1) == labels).sum().item()
    model.train()
    return correct / len(valid_set)


step = 0
model.train()
for _epoch in range(4):
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
        if step % 20 == 0:
            print(f"valid {validate():.4f}")
