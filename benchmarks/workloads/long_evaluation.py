"""Trains on 3,000 pictures and evaluates on 24,000 after each epoch: evaluation takes most of the run."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Bytes, of which each sample is made as ``ToTensor`` and ``Normalize`` make it."""

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(4, (n,), generator=generator)
        self.raw = torch.randint(0, 200, (n, 28, 28), dtype=torch.uint8, generator=generator)
        self.raw[torch.arange(n), 5 * self.labels + 3] += 50  # a brighter line

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = self.raw[index].unsqueeze(0).float().div(255)
        return picture.sub_(0.4).div_(0.25), int(self.labels[index])


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=8)
arguments = parser.parse_args()
torch.manual_seed(0)
train_loader = DataLoader(Pictures(3000, 1), batch_size=32, shuffle=True)
test_loader = DataLoader(Pictures(24_000, 2), batch_size=256)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(784, 4)
)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(arguments.epochs):
    model.train()
    for pictures, labels in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for pictures, labels in test_loader:
            correct += (model(pictures).argmax(dim=1) == labels).sum().item()
    print(f"epoch {epoch}: accuracy {correct / 24_000:.4f}")
