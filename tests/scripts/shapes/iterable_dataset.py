"""The data is a stream: an IterableDataset without a length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, length, seed):
        self.length = length
        self.seed = seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.length):
            x = torch.rand(2, generator=generator) * 2 - 1
            yield x, (x.norm() < 0.7).float()


def train():
    torch.manual_seed(0)
    loader = DataLoader(Stream(16 * 140, seed=1), batch_size=16)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.BCEWithLogitsLoss()
    for step, (x, y) in enumerate(loader, start=1):
        loss = criterion(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    train()
