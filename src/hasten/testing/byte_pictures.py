"""Images of bytes that a transform turns into float tensors, as with torchvision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset


class Compose:
    """Applies transforms one after another, like torchvision's class of this name."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, picture: Any) -> Any:
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class ToTensor:
    """Bytes 0 to 255 as float32 from 0 to 1. It takes a tensor, so Pillow is not needed."""

    def __call__(self, picture: Any) -> Any:
        return picture.float().div(255)


class Normalize:
    """Subtracts a mean and divides by a deviation, one of each per channel, like torchvision's."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, picture: Any) -> Any:
        mean, std = (torch.as_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return picture.clone().sub_(mean).div_(std)


class BytePictures(Dataset[tuple[torch.Tensor, int]]):
    """Forty images (3, 8, 8) with labels 0 to 3; each is flipped with probability 0.5 whenever it is read."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        self.pictures = torch.randint(256, (40, 3, 8, 8), dtype=torch.uint8, generator=generator)
        normalize = Normalize([0.49, 0.48, 0.45], [0.25, 0.24, 0.26])
        self.transform = Compose([_turned, ToTensor(), normalize])

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index]), index % 4


def _turned(picture: torch.Tensor) -> torch.Tensor:
    return picture.flip(-1) if torch.rand(1) < 0.5 else picture
