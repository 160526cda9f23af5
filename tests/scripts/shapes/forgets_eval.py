"""Evaluates under no_grad but forgets model.eval(), as many beginners do; no loader for what is held out."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def accuracy(model, x, y):
    right = 0
    for start in range(0, len(x), 40):
        right += (model(x[start : start + 40]).argmax(1) == y[start : start + 40]).sum().item()
    return right / len(x)


def main():
    torch.manual_seed(0)
    x = torch.randn(960, 10)
    y = (x[:, :3].sum(1) > 0).long()
    loader = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step = 0
    for epoch in range(6):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        print("epoch", epoch, accuracy(model, x[480:], y[480:]))


if __name__ == "__main__":
    main()
