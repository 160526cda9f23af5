"""Pictures come from a loader with workers and are sent to the GPU. The argument is their side in pixels:
large ones take long to copy, small ones do not.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Slices of one tensor: what is left of a loader's work is to put them together and hand them over."""

    def __init__(self, side: int) -> None:
        self.pictures = torch.randint(0, 256, (512, 3, side, side), dtype=torch.uint8).float()

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pictures[index], index % 10


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda")
    side = int(sys.argv[1])
    model = nn.Sequential(
        *(nn.Conv2d(3, 64, 7, stride=4), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU()),
        *(nn.Conv2d(128, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(Pictures(side), batch_size=64, shuffle=True, num_workers=8, persistent_workers=True)
    while True:
        for pictures, labels in loader:
            pictures, labels = pictures.to(device), labels.to(device)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pictures), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
