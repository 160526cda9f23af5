"""The model takes an image and a vector."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patients(Dataset):
    def __init__(self, n):
        self.scans = torch.rand(n, 1, 10, 10)
        self.values = torch.randn(n, 5)
        self.risk = 4 * self.scans[:, 0, 3:7, 3:7].mean(dim=(1, 2)) + self.values[:, 0]

    def __len__(self):
        return len(self.risk)

    def __getitem__(self, i):
        return self.scans[i], self.values[i], self.risk[i]


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.vector = nn.Sequential(nn.Linear(5, 16), nn.ReLU())
        self.joint = nn.Linear(40, 1)

    def forward(self, image, vector):
        return self.joint(torch.cat([self.image(image), self.vector(vector)], dim=1)).squeeze(1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Patients(480), batch_size=12, shuffle=True)
    model = TwoBranches()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    for _epoch in range(4):
        for image, vector, risk in loader:
            loss = nn.functional.mse_loss(model(image, vector), risk)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
