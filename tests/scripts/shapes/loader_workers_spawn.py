"""A worker process, spawned, makes the samples."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shifted(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        label = index % 3
        x = torch.randn(12)
        x[label * 4 : label * 4 + 4] += 1.0
        return x, label


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Shifted(16 * 130), batch_size=16, shuffle=True, num_workers=1, multiprocessing_context="spawn"
    )
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader, start=1):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
