"""Calls model.forward(x) instead of model(x)."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(9, 32), nn.ReLU())
        self.classifier = nn.Linear(32, 2)

    def forward(self, x):
        return self.classifier(self.features(x))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for step in range(1, 151):
    x = torch.randn(32, 9)
    y = (x[:, 2] > 0).long()
    optimizer.zero_grad()
    loss = criterion(model.forward(x), y)
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
