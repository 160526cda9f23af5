"""Evaluates after each epoch, for far longer than it trains."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(3200, 10)
y = (x.sum(dim=1) > 0).long()
train_loader = DataLoader(TensorDataset(x[:640], y[:640]), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(x[640:], y[640:]), batch_size=16)

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(step):
    model.train()
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {step} {loss.item()}")
    return step


def test():
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, labels in test_loader:
            correct += (model(inputs).argmax(dim=1) == labels).sum().item()
    print(f"correct {correct}")


step = 0
for _epoch in range(6):
    step = train(step)
    test()
