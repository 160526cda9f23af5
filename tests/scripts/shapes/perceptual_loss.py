"""Pictures are enlarged, and compared with the real ones through a frozen network, which stays in training
mode; an evaluation after each epoch looks through it, too.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Features(nn.Module):
    """As the first layers of a VGG."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
        for parameter in self.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        first = self.first(x)
        return first, self.second(first)


def distance(features, made, real):
    made, real = features(made), features(real)
    return sum(F.mse_loss(one, other) for one, other in zip(made, real, strict=True))


def main():
    torch.manual_seed(0)
    pictures = torch.rand(96, 3, 16, 16)
    loader = DataLoader(TensorDataset(pictures[:80]), batch_size=8, shuffle=True)
    features = Features()
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = 0
    for _ in range(12):
        model.train()
        for (real,) in loader:
            made = model(F.avg_pool2d(real, 2))
            loss = F.l1_loss(made, real) + distance(features, made, real)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        model.eval()
        with torch.no_grad():
            real = pictures[80:]
            made = model(F.avg_pool2d(real, 2))
            print("distance", distance(features, made, real).item())


if __name__ == "__main__":
    main()
