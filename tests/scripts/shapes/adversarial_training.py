"""Trains on adversarial examples, which a backward pass of their own makes (FGSM)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def attacked(model, x, y, epsilon):
    x = x.clone().detach().requires_grad_(True)
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    return (x + epsilon * x.grad.sign()).detach()


def main():
    torch.manual_seed(0)
    x = torch.randn(480, 1, 8, 8)
    y = (x[:, 0, :4].mean((1, 2)) > x[:, 0, 4:].mean((1, 2))).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    for _ in range(7):
        for inputs, labels in loader:
            made = attacked(model, inputs, labels, 0.1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(made), labels)
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
