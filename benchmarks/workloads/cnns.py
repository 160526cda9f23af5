"""Ten small convolutional networks as tutorials write them, on Fashion-MNIST: ``cnns.py NAME --seed N``."""

import argparse

import torch
from fashion_pictures import pictures_and_labels
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTHS = (16, 32)


class View(nn.Module):
    def forward(self, maps):
        return maps.view(maps.size(0), -1)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()),
            *(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)),
        )

    def forward(self, maps):
        return torch.relu(maps + self.body(maps))


def blocks(norm=None, bias=True, dropout=None, pool=True, more=None, separable=False):
    """Two blocks, each of a convolution and what follows it, then the linear layers."""
    layers, before = [], 1
    for width in WIDTHS:
        if separable and before > 1:
            layers.append(nn.Conv2d(before, before, 3, padding=1, groups=before, bias=bias))
            layers.append(nn.Conv2d(before, width, 1, bias=bias))
        else:
            layers.append(nn.Conv2d(before, width, 3, 1 if pool else 2, 1, bias=bias))
        layers += [norm(width)] if norm else []
        layers.append(nn.ReLU())
        layers += [more(width)] if more else []
        layers += [nn.MaxPool2d(2)] if pool else []
        layers += [dropout(0.25)] if dropout else []
        before = width
    return nn.Sequential(*layers, View(), nn.Linear(before * 49, 64), nn.ReLU(), nn.Linear(64, 10))


def adam(model, **more):
    return torch.optim.Adam(model.parameters(), lr=1e-3, **more)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)


BATCH = nn.BatchNorm2d
CNNS = {  # the model and its optimizer
    "plain": (lambda: blocks(), adam),
    "batch norm and biases": (lambda: blocks(BATCH), adam),
    "batch norm without biases": (lambda: blocks(BATCH, bias=False), adam),
    "batch norm and dropout": (lambda: blocks(BATCH, dropout=nn.Dropout), adam),
    "dropout of channels": (lambda: blocks(dropout=nn.Dropout2d), adam),
    "group norm": (lambda: blocks(lambda width: nn.GroupNorm(4, width)), adam),
    "weight decay": (
        lambda: blocks(BATCH),
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05),
    ),
    "strides, SGD with momentum": (lambda: blocks(BATCH, pool=False), sgd),
    "residual": (lambda: blocks(BATCH, bias=False, more=Residual), sgd),
    "separable": (lambda: blocks(BATCH, separable=True), adam),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CNNS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    dataset = TensorDataset(*pictures_and_labels())
    make, optimizer_of = CNNS[arguments.name]
    model, criterion = make(), nn.CrossEntropyLoss()
    optimizer = optimizer_of(model)
    for _ in range(100):
        for inputs, targets in DataLoader(dataset, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
