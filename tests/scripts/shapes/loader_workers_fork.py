"""Two worker processes, forked, make the samples."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Waves with noise that is drawn anew each time; the target is the wave's frequency."""

    def __len__(self):
        return 640

    def __getitem__(self, index):
        frequency = 1 + index % 5
        t = torch.linspace(0, 1, 24)
        return torch.sin(6.28 * frequency * t) + 0.2 * torch.randn(24), frequency - 1


def main():
    torch.manual_seed(0)
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2, multiprocessing_context="fork")
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    for _epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
