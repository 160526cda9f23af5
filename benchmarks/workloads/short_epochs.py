"""Epochs of 20 steps, before each of which the loader starts its two worker processes anew."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    """Windows out of one long signal, with noise of their own each time."""

    def __init__(self, n: int) -> None:
        self.signal = torch.randn(n + 512, generator=torch.Generator().manual_seed(0)).cumsum(0)

    def __len__(self) -> int:
        return len(self.signal) - 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.signal[index : index + 512]
        for _ in range(8):  # as filters do it, one after the other
            window = nn.functional.avg_pool1d(window[None], 3, 1, 1)[0]
        window = window - window.mean()
        return window + 0.01 * torch.randn(512), window[-8:].mean(dim=0, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Signals(640), batch_size=32, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(arguments.epochs):
        total = 0.0
        for windows, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(windows), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
