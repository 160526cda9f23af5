"""Data sets of the kinds that scripts have: what their samples hold and where these come from, what they keep
between samples, and what scripts change between epochs.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, default_collate, get_worker_info, random_split

from hasten.testing.byte_pictures import Compose

SIZE = 24
ROWS = np.random.default_rng(3).random((SIZE, 3))


def doubled(value: Any) -> Any:
    return value * 2


def flipped(value: torch.Tensor) -> torch.Tensor:
    return value.flip(0) if torch.rand(1) < 0.5 else value


class Made(Dataset[Any]):
    """Samples by a function of the data set and the index."""

    def __init__(self, sample: Callable[[Any, int], Any], **attributes: Any) -> None:
        self.sample = sample
        self.transform: Any = None
        self.items: Any = list(ROWS)
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.sample(self, index)


@dataclass(frozen=True)
class Kind:
    """``why_not``: what of the reason is said where its samples are not kept, by technique. ``change``: what
    the script does with it after an epoch.
    """

    make: Callable[[Path], Any]
    why_not: dict[str, str] = field(default_factory=dict)
    change: Callable[[Any], None] = lambda dataset: None
    collate: Callable[[list[Any]], Any] = default_collate


def everywhere(reason: str) -> dict[str, str]:
    return {"sample_store": reason, "dataset_in_ram": reason}


# ---- where samples come from
class PicturesInFolders(Dataset[Any]):
    def __init__(self, folder: Path) -> None:
        from PIL import Image

        self.samples = [(str(folder / f"{n % 3}-{n}.png"), n % 3) for n in range(SIZE)]
        for n, (path, _) in enumerate(self.samples):
            Image.fromarray(np.full((4, 4, 3), n, np.uint8)).save(path)
        self.transform = Compose([np.array, torch.from_numpy, doubled, flipped])

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        path, label = self.samples[index]
        with open(path, "rb") as file:
            picture = Image.open(file).convert("RGB")
        return self.transform(picture), label


def frame(_: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": ROWS[:, 0], "name": [f"row {n}" for n in range(SIZE)]})
    return Made(lambda self, i: dict(self.table.iloc[i]), table=table)


class Table(Made):
    """As of the library datasets: rows come in the format that was set."""

    def __init__(self) -> None:
        super().__init__(lambda self, i: {"x": torch.from_numpy(ROWS[i]).to(self.dtype)})
        self.set_format(torch.float32)

    def set_format(self, dtype: torch.dtype) -> None:
        self.dtype = dtype


class OpenedWhenUsed(Dataset[Any]):
    """As those of h5py and lmdb, which each process opens for itself."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows"
        self.path.write_bytes(ROWS.tobytes())
        self.file: int | None = None

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is None:
            self.file = os.open(self.path, os.O_RDONLY)
        return torch.frombuffer(bytearray(os.pread(self.file, 24, index * 24)), dtype=torch.float64)


def mapped(folder: Path) -> Any:
    np.save(folder / "rows.npy", ROWS)
    return np.load(folder / "rows.npy", mmap_mode="r+")


# ---- what they hold
class Text(NamedTuple):
    words: str
    box: None


def padded(samples: list[Any]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in samples], batch_first=True)


# ---- what they keep between samples
COUNTED = {"samples": 0}


class Counting(Made):
    made = 0


def by_class(self: Any, index: int) -> float:
    Counting.made += 1
    return float(index + Counting.made // 10_000)


def by_global(self: Any, index: int) -> float:
    COUNTED["samples"] += 1
    return float(index + COUNTED["samples"] // 10_000)


def by_attribute(self: Any, index: int) -> float:
    self.made += 1
    return float(index + self.made // 10_000)


def by_cache(self: Any, index: int) -> Any:
    if index not in self.cache:
        self.cache[index] = self.items[index] * 2
    return self.cache[index]


class WholeBatches(Made):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


# ---- what they ask for
def by_worker(self: Any, index: int) -> Any:
    told = get_worker_info()
    return np.random.default_rng((told.seed if told is not None else 0) % 2**32 + index).random(3)


def by_first_seed(self: Any, index: int) -> Any:
    return np.random.default_rng(torch.initial_seed() % 2**32 + index).random(3)


# ---- what scripts change
def grow(dataset: Any) -> None:
    dataset.items.append(ROWS[len(dataset) % SIZE] * 5)


def replace_some(dataset: Any) -> None:
    """As in a buffer of experience."""
    dataset.items[4] = dataset.items[4] + 1


def write_into(dataset: Any) -> None:
    dataset.items[4] *= 3


def count_epoch(dataset: Any) -> None:
    dataset.epoch.value += 1


def another_transform(dataset: Any) -> None:
    dataset.transform = Compose([torch.from_numpy, flipped, doubled, doubled])


def another_in_the_list(dataset: Any) -> None:
    dataset.transform.transforms.insert(1, doubled)


def transformed(_: Path) -> Any:
    whole = Made(lambda self, i: self.transform(self.items[i]))
    whole.transform = Compose([torch.from_numpy, doubled, flipped])
    return whole


def parts(_: Path) -> Any:
    first, second = Made(lambda self, i: self.items[i]), Made(lambda self, i: self.items[i] * 2)
    whole: Any = ConcatDataset([first, second])
    chosen = random_split(whole, [30, 18], torch.Generator().manual_seed(1))[0]
    return Subset(chosen, range(3, 27))


KINDS = {
    "pictures in folders": Kind(PicturesInFolders),
    "a frame": Kind(frame),
    "a table that gets another format": Kind(
        lambda _: Table(), change=lambda table: table.set_format(torch.float64)
    ),
    "opened when used": Kind(OpenedWhenUsed),
    "a mapped file": Kind(
        lambda folder: Made(lambda self, i: torch.tensor(self.rows[i]), rows=mapped(folder))
    ),
    "rows of a mapped file": Kind(
        lambda folder: Made(lambda self, i: self.rows[i], rows=mapped(folder)),
        {"sample_store": "memmap objects of numpy"},
    ),
    "tokens": Kind(lambda _: Made(lambda self, i: list(range(i % 7 + 1))), collate=padded),
    "named tuples": Kind(
        lambda _: Made(lambda self, i: Text(f"word {i}", None)),
        {"sample_store": "Text objects"},
        collate=list,
    ),
    "a counter": Kind(lambda _: Made(by_attribute, made=0), everywhere("the dataset's own state")),
    "a counter of the class": Kind(lambda _: Counting(by_class), everywhere("changes Counting")),
    "a counter in a global": Kind(lambda _: Made(by_global), everywhere("changes Made.sample")),
    "a cache": Kind(lambda _: Made(by_cache, cache={}), {"sample_store": "the dataset's own state"}),
    "whole batches": Kind(lambda _: WholeBatches(lambda self, i: self.items[i]), everywhere("__getitems__")),
    "seeded by the worker": Kind(lambda _: Made(by_worker), everywhere("differs when it is drawn twice")),
    "seeded by the first seed": Kind(lambda _: Made(by_first_seed), everywhere("differs when it is drawn")),
    "parts of several": Kind(parts),
    "transforms": Kind(transformed),
    "another transform": Kind(transformed, change=another_transform),
    "another transform in the list": Kind(transformed, change=another_in_the_list),
    "it grows": Kind(lambda _: Made(lambda self, i: self.items[i]), change=grow),
    "some are replaced": Kind(lambda _: Made(lambda self, i: self.items[i]), change=replace_some),
    "written into": Kind(
        lambda _: Made(lambda self, i: self.items[i], items=[row.copy() for row in ROWS]), change=write_into
    ),
    "an epoch that processes share": Kind(
        lambda _: Made(lambda self, i: i + self.epoch.value, epoch=multiprocessing.Value("i", 0)),
        {
            "dataset_in_ram": "memory that processes share",
            "sample_store": "so a later run could not recognise it",
        },
        change=count_epoch,
    ),
}
