"""Transforms before the first random one are kept, the rest is called anew: the same samples and draws."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, default_collate

from hasten.inside.samples.columns import same_batch
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.byte_pictures import Compose

from ..thorough import in_turn
from .reading import Reading

PLAN = Plan({"dataset_in_ram": {}})
SIZE = 24

pytest.importorskip("PIL", reason="pictures are Pillow's here, which is not installed")


class ModuleCompose(torch.nn.Module):
    """As torchvision's second version."""

    def __init__(self, transforms: list[Callable[[Any], Any]]) -> None:
        super().__init__()
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        for transform in self.transforms:
            inputs = (transform(*inputs),)
        return inputs[0]


class Resize:
    def __init__(self, side: int) -> None:
        self.side = side
        self.calls = 0

    def __call__(self, image: Any) -> Any:
        return image.resize((self.side, self.side))


def to_tensor(image: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def subtract_mean(image: torch.Tensor) -> torch.Tensor:
    """Writes into what it gets."""
    return image.sub_(image.mean())


def flip(image: Any) -> Any:
    return image.transpose(0) if torch.rand(1) < 0.5 else image


def crop(image: torch.Tensor) -> torch.Tensor:
    at = random.randint(0, 2)
    return image[:, at : at + 4, at : at + 4]


def noise(image: torch.Tensor) -> torch.Tensor:
    return image + torch.from_numpy(np.random.rand(*image.shape)).float()


class Images(Dataset[Any]):
    """Pillow's images of noise, as torchvision's datasets hand them out; counts how many were made."""

    def __init__(self, transform: Any, target_transform: Any = None) -> None:
        self.transform = transform
        self.target_transform = target_transform
        self.pixels = np.random.default_rng(3).integers(0, 255, (SIZE, 12, 12, 3), dtype=np.uint8)
        self.made: list[int] = []
        self.note = True

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        image, target = self.load(index, Image), index % 4
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def load(self, index: int, images: Any) -> Any:
        globals()["LOADED"].append(index)  # what a method names counts as what samples are made of
        return images.fromarray(self.pixels[index])


LOADED: list[int] = []  # apart from the dataset, whose state must stay


TRANSFORMS: dict[str, tuple[list[Callable[[Any], Any]], int]] = {
    "random at once": ([flip, Resize(8), to_tensor], 3),
    "a picture is kept": ([Resize(8), flip, to_tensor, crop, noise], 4),
    "a tensor is kept": ([Resize(8), to_tensor, crop, noise], 2),
    "the rest writes into it": ([Resize(8), to_tensor, subtract_mean, crop, subtract_mean], 2),
    "random at the end": ([Resize(8), to_tensor, subtract_mean, noise], 1),
}


def streams() -> tuple[Any, ...]:
    numpys: Any = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpys[1].tobytes(), numpys[2]


def epochs(reading: Reading, dataset: Any, plan: Plan, **options: Any) -> tuple[list[Any], Any]:
    """Two epochs from one seed, and the RNG states at their end."""
    reading.board.switch(plan, prepare=True)
    torch.manual_seed(4)
    random.seed(4)
    np.random.seed(4)
    return [reading.epoch(dataset, shuffle=True, **options) for _ in range(2)], streams()


@pytest.mark.parametrize(
    ("name", "kind", "wrapped"), in_turn(TRANSFORMS, [Compose, ModuleCompose], [False, True])
)
def test_samples_and_random_draws_are_the_datasets(
    reading: Reading, name: str, kind: Any, wrapped: bool
) -> None:
    transforms, anew = TRANSFORMS[name]
    dataset: Any = Images(kind(transforms))
    dataset = Subset(dataset, range(1, 20)) if wrapped else dataset
    theirs, their_streams = epochs(reading, dataset, BASELINE)
    ours, our_streams = epochs(reading, dataset, PLAN)
    assert same_batch(ours, theirs)
    assert our_streams == their_streams
    assert reading.proof().effective
    assert reading.proof().evidence == (
        f"{2 * len(dataset)} samples came from memory, 0 were made; "
        f"the last {anew} transforms are called anew for each"
    )


def test_images_are_loaded_once_and_for_spot_checks(reading: Reading) -> None:
    dataset = Images(Compose(TRANSFORMS["a picture is kept"][0]))
    epochs(reading, dataset, BASELINE)
    reading.board.switch(PLAN, prepare=True)
    LOADED.clear()
    reading.epoch(dataset)
    assert 0 < len(LOADED) <= 4


def test_a_collate_function_of_the_scripts_may_write_into_samples(reading: Reading) -> None:
    def collate(samples: list[Any]) -> Any:
        for image, _ in samples:
            image.mul_(3)
        return default_collate(samples)

    dataset = Images(Compose(TRANSFORMS["a tensor is kept"][0]))
    theirs, _ = epochs(reading, dataset, BASELINE, collate_fn=collate)
    ours, _ = epochs(reading, dataset, PLAN, collate_fn=collate)
    assert same_batch(ours, theirs)


def test_targets_may_be_transformed_too(reading: Reading) -> None:
    dataset = Images(Compose([to_tensor, noise]), target_transform=lambda target: target + 10)
    theirs, _ = epochs(reading, dataset, BASELINE)
    ours, _ = epochs(reading, dataset, PLAN)
    assert same_batch(ours, theirs)


def test_torchvisions_pair_of_transforms_is_divided_too(reading: Reading) -> None:
    class Standard:
        def __init__(self, transform: Any) -> None:
            self.transform = transform

        def __call__(self, image: Any, target: int) -> Any:
            return self.transform(image), target

    class Vision(Images):
        def __init__(self, transform: Any) -> None:
            super().__init__(transform)
            self.transforms = Standard(transform)

        def __getitem__(self, index: int) -> Any:
            from PIL import Image

            return self.transforms(self.load(index, Image), index)

    dataset = Vision(Compose([to_tensor, noise]))
    theirs, _ = epochs(reading, dataset, BASELINE)
    ours, _ = epochs(reading, dataset, PLAN)
    assert same_batch(ours, theirs)


def test_two_views_of_a_sample_are_finished_in_their_order(reading: Reading) -> None:
    class Views(Images):
        def __getitem__(self, index: int) -> Any:
            from PIL import Image

            image = self.load(index, Image)
            return self.transform(image), self.transform(image)

    dataset = Views(Compose([Resize(8), to_tensor, noise]))
    theirs, _ = epochs(reading, dataset, BASELINE)
    ours, _ = epochs(reading, dataset, PLAN)
    assert same_batch(ours, theirs)


# ---- changes
def changed(reading: Reading, change: Callable[[Images], None]) -> str:
    """The evidence after a change in mid-training; samples must be those of the changed dataset."""
    dataset = Images(Compose([Resize(8), to_tensor, crop, noise]))
    epochs(reading, dataset, BASELINE)
    reading.board.switch(PLAN, prepare=True)
    reading.epoch(dataset)
    change(dataset)
    torch.manual_seed(6), random.seed(6), np.random.seed(6)
    ours = reading.epoch(dataset)
    proof = reading.proof()
    reading.board.switch(BASELINE)
    torch.manual_seed(6), random.seed(6), np.random.seed(6)
    assert same_batch(ours, reading.epoch(dataset))
    assert not proof.effective
    return proof.evidence


def test_another_transform_gives_the_cache_up(reading: Reading) -> None:
    def change(dataset: Images) -> None:
        dataset.transform = Compose([Resize(6), to_tensor, noise])

    assert "given up" in changed(reading, change)


def test_another_list_of_transforms_gives_the_cache_up(reading: Reading) -> None:
    def change(dataset: Images) -> None:
        dataset.transform.transforms.insert(0, flip)

    assert "the transforms were replaced" in changed(reading, change)


def test_another_setting_of_a_transform_gives_the_cache_up(reading: Reading) -> None:
    """Progressive resizing, say."""

    def change(dataset: Images) -> None:
        dataset.transform.transforms[0].side = 9

    assert "the dataset was changed" in changed(reading, change)


def test_a_cache_is_kept_while_the_technique_is_off_unless_a_transform_changed(reading: Reading) -> None:
    dataset = Images(Compose([Resize(8), to_tensor, noise]))
    epochs(reading, dataset, BASELINE)
    for side, loads in ((8, range(1, 5)), (6, range(SIZE, 200))):
        reading.board.switch(PLAN, prepare=True)
        reading.board.switch(BASELINE)
        dataset.transform.transforms[0].side = side
        LOADED.clear()
        reading.board.switch(PLAN, prepare=True)
        reading.epoch(dataset)
        assert len(LOADED) in loads
        assert reading.proof().effective


# ---- what cannot be divided
def refusal(reading: Reading, dataset: Any) -> str:
    reading.epoch(dataset)
    before = streams()
    with pytest.raises(NotApplicable) as refused:
        reading.board.switch(PLAN)
    assert streams() == before
    return str(refused.value)


class Jitter(Images):
    def __getitem__(self, index: int) -> Any:
        image, target = super().__getitem__(index)
        return image + torch.rand(1), target


class RandomTarget(Images):
    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, random.random()


class Scaled(Images):
    def __getitem__(self, index: int) -> Any:
        image, target = super().__getitem__(index)
        return image * 2, target


def waits(image: Any) -> Any:
    """Takes a hundred times as long as what comes before it."""
    time.sleep(0.002)
    return flip(image)


class OwnNumbers:
    def __init__(self) -> None:
        self.own = random.Random(1)

    def __call__(self, image: Any) -> Any:
        return image + self.own.random()


class Backwards(Compose):
    def __call__(self, image: Any) -> Any:
        for transform in reversed(self.transforms):
            image = transform(image)
        return image


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda: Jitter(Compose([to_tensor, noise])), "unsupported operand", id="noise after"),
        pytest.param(
            lambda: RandomTarget(Compose([to_tensor, noise])), "outside of its", id="a random target"
        ),
        pytest.param(
            lambda: Images(Compose([to_tensor, noise]), target_transform=lambda t: t + random.randint(0, 3)),
            "outside of its transforms", id="random transforms of the target",
        ),
        pytest.param(lambda: Scaled(Compose([to_tensor, noise])), "unsupported operand", id="more after"),
        pytest.param(
            lambda: Images(Compose([to_tensor, OwnNumbers()])), "are called separately", id="an own generator"
        ),
        pytest.param(lambda: Images(Backwards([noise, to_tensor])), "failed", id="another order"),
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(reading: Reading, make: Callable[[], Any], reason: str) -> None:
    assert reason in refusal(reading, make())


@pytest.mark.parametrize("trains", [True, False])
def test_where_little_is_spared_it_is_not_tried(reading: Reading, trains: bool) -> None:
    """In a running training: a process that begins with the plan does what was found in others."""
    reading.training.in_a_trial, reading.training.steps = True, 20 * trains
    dataset = Images(Compose([waits, to_tensor]))
    if trains:
        assert "there is little to keep" in refusal(reading, dataset)
    else:
        reading.epoch(dataset)
        reading.board.switch(PLAN)


def test_random_transforms_are_not_gathered_from(reading: Reading) -> None:
    dataset = Images(Compose([Resize(8), to_tensor, noise]))
    theirs, _ = epochs(reading, dataset, BASELINE)
    ours, _ = epochs(reading, dataset, Plan({"dataset_in_ram": {}, "batched_fetch": {}}))
    assert same_batch(ours, theirs)
    assert not reading.proof("batched_fetch").effective
    assert "random transforms" in reading.proof("batched_fetch").evidence
    assert reading.proof("dataset_in_ram").effective
