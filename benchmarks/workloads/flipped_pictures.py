"""Small pictures, cropped and flipped by chance, become tensors one by one, as by torchvision's classes."""

import random

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Compose:
    def __init__(self, transforms: list) -> None:
        self.transforms = transforms

    def __call__(self, picture):
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class ToTensor:
    def __call__(self, picture: Image.Image) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(picture, np.uint8, copy=True))
        pixels = pixels.view(picture.size[1], picture.size[0], len(picture.getbands()))
        return pixels.permute((2, 0, 1)).contiguous().to(torch.float32).div(255)


class Normalize(nn.Module):
    def __init__(self, mean: tuple, std: tuple) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        mean, std = torch.as_tensor(self.mean), torch.as_tensor(self.std)
        if (std == 0).any():
            raise ValueError("division by zero")
        return picture.clone().sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


def crop(picture: Image.Image) -> Image.Image:
    left, top = random.randint(0, 8), random.randint(0, 8)
    return ImageOps.expand(picture, 4).crop((left, top, left + 32, top + 32))


def flip(picture: Image.Image) -> Image.Image:
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else picture


class Pictures(Dataset):
    def __init__(self) -> None:
        self.raw = np.random.default_rng(0).integers(0, 256, (4096, 32, 32, 3), dtype=np.uint8)
        self.transform = Compose([crop, flip, ToTensor(), Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.raw[index])), index % 10


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Pictures(), batch_size=128, shuffle=True)
while True:
    for pictures, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
