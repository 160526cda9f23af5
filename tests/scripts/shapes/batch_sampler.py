"""A batch sampler of its own: sequences of one length come together in a batch."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    """Sequences of 4, 6 or 8 numbers; the target is their mean."""

    def __init__(self, n):
        self.items = [torch.randn(4 + 2 * (i % 3), 1) for i in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i], self.items[i].mean(dim=0)


class SameLength:
    def __init__(self, dataset, batch_size, seed):
        self.groups = {}
        for i, sequence in enumerate(dataset.items):
            self.groups.setdefault(len(sequence), []).append(i)
        self.batch_size = batch_size
        self.random = random.Random(seed)

    def __len__(self):
        return sum(len(group) // self.batch_size for group in self.groups.values())

    def __iter__(self):
        batches = []
        for group in self.groups.values():
            self.random.shuffle(group)
            for i in range(0, len(group) - self.batch_size + 1, self.batch_size):
                batches.append(group[i : i + self.batch_size])
        self.random.shuffle(batches)
        return iter(batches)


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(1, 16), nn.ReLU())
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.each(x).mean(dim=1))


def main():
    torch.manual_seed(0)
    dataset = Sequences(720)
    loader = DataLoader(dataset, batch_sampler=SameLength(dataset, 16, seed=0))
    model = Mean()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = 0
    for _epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
