"""Pictures as from a camera's thumbnails, of which a part is cut out by chance and resized."""

import random

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomResizedCrop:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, picture: Image.Image) -> Image.Image:
        side = random.randint(160, 300)
        left, top = random.randint(0, 400 - side), random.randint(0, 300 - side)
        part = picture.crop((left, top, left + side, top + side))
        return part.resize((self.size, self.size), Image.Resampling.BILINEAR)


class Pictures(Dataset):
    def __init__(self) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (64, 300, 400, 3), dtype=np.uint8)
        self.pictures = [Image.fromarray(one) for one in noise]
        self.transform = RandomResizedCrop(112)

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = np.asarray(self.transform(self.pictures[index % 64]))
        return torch.from_numpy(picture.copy()).permute(2, 0, 1).float() / 255, index % 10


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(588, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Pictures(), batch_size=32, shuffle=True)
while True:
    for pictures, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
