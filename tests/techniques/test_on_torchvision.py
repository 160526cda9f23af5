"""Techniques for pictures, on torchvision's own data sets and transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hasten.inside.samples import resizing
from hasten.inside.samples.columns import same_batch
from hasten.inside.samples.resizing import LIMIT
from hasten.inside.techniques.native_resize import NativeResize
from hasten.machine import this_machine
from hasten.records.plan import Plan

from .reading import StartUnder
from .test_batched_to_tensor import drawn, seeded

torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:The transform `ToTensor\\(\\)` is deprecated:UserWarning")
SIZE = 24
MEANS, DEVIATIONS = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def first() -> dict[str, Callable[[], Any]]:
    v1 = torchvision.transforms
    normalize = v1.Normalize(MEANS, DEVIATIONS)
    return {
        "cifar": lambda: v1.Compose(
            [v1.RandomCrop(20, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor(), normalize]
        ),
        "imagenet": lambda: v1.Compose(
            [v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor(), normalize]
        ),
        "to a tensor alone": v1.ToTensor,
        "grey": lambda: v1.Compose([v1.Grayscale(), v1.ToTensor(), v1.Normalize((0.1307,), (0.3081,))]),
        "by way of bytes": lambda: v1.Compose(
            [v1.PILToTensor(), v1.RandomCrop(16), v1.ConvertImageDtype(torch.float32), normalize]
        ),
        "random policies": lambda: v1.Compose([v1.RandAugment(), v1.ColorJitter(0.3), v1.ToTensor()]),
    }


def second() -> dict[str, Callable[[], Any]]:
    floats = v2.ToDtype(torch.float32, scale=True)
    normalize = v2.Normalize(MEANS, DEVIATIONS)
    return {
        "v2 on Pillow's": lambda: v2.Compose(
            [v2.RandomCrop(16), v2.RandomHorizontalFlip(), v2.ToImage(), floats, normalize]
        ),
        "v2 on tensors": lambda: v2.Compose(
            [v2.ToImage(), v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), floats, normalize]
        ),
        "v2 bytes": lambda: v2.Compose(
            [v2.PILToTensor(), v2.RandomCrop(16, padding=2), floats, normalize, v2.ToPureTensor()]
        ),
        "v2 as v1": lambda: v2.Compose([v2.RandomVerticalFlip(), v2.ToTensor(), normalize]),
    }


PIPELINES = {**first(), **second()}


def pictures(transform: Any) -> Any:
    return torchvision.datasets.FakeData(SIZE, (3, 24, 28), 5, transform=transform)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_and_draws_are_the_scripts(started_under: StartUnder, name: str, workers: int) -> None:
    dataset = pictures(PIPELINES[name]())
    theirs = drawn(dataset, num_workers=workers)
    started = started_under(Plan({"batched_to_tensor": {}}))
    assert same_batch(drawn(dataset, num_workers=workers), theirs)
    assert started.proof().evidence.startswith(f"{2 * SIZE} samples became tensors with their batch, 0 by")
    assert started.proof().effective


@pytest.mark.skipif(
    bool(NativeResize.refuse_machine(this_machine())),
    reason="; ".join(NativeResize.refuse_machine(this_machine())) or "it is not refused here",
)
@pytest.mark.parametrize("kind", ["Resize", "RandomResizedCrop"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_are_resized_by_torch(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch, kind: str, workers: int
) -> None:
    monkeypatch.setattr(resizing, "FIRST_CHECKS", 0)
    transforms = torchvision.transforms
    transform = transforms.Compose([getattr(transforms, kind)((16, 13)), transforms.PILToTensor()])
    assert resizing.resizes(pictures(transform))
    seeded()
    theirs = drawn(pictures(transform), num_workers=workers)
    started = started_under(Plan({"native_resize": {}}))
    ours = drawn(pictures(transform), num_workers=workers)
    for mine, others in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        assert int((mine[0].int() - others[0].int()).abs().max()) <= LIMIT
        assert torch.equal(mine[1], others[1])
    assert same_batch(ours[2:], theirs[2:])
    assert started.counted >= 2 * SIZE - 4  # a part may have the size that is asked for
    assert started.proof().effective
