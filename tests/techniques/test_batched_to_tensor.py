"""Batches whose pictures become tensors together are the script's own, to the last bit; so are its draws."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, default_collate

from hasten.inside.samples import late_fetch, late_sets
from hasten.inside.samples.columns import same_batch
from hasten.inside.samples.conversions import convert, tail_of
from hasten.inside.samples.late_dataset import LateDataset
from hasten.inside.samples.late_pictures import Late
from hasten.inside.samples.late_proof import proven
from hasten.inside.techniques.batched_to_tensor import BatchedToTensor
from hasten.inside.training import NotApplicable
from hasten.records.observation import Step
from hasten.records.plan import Plan
from hasten.testing.byte_pictures import Compose

from ..thorough import in_turn
from .made_up import facts, loader, machine
from .reading import Started, StartUnder

pytest.importorskip("PIL", reason="pictures are Pillow's here, which is not installed")
from PIL import Image

PLAN = Plan({"batched_to_tensor": {}})
SIZE = 24
MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


# ---- stand-ins for torchvision's transforms, which compute as they do
class ToTensor:
    def __call__(self, picture: Any) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(picture, np.uint8, copy=True))
        pixels = pixels.view(picture.size[1], picture.size[0], len(picture.getbands()))
        return pixels.permute((2, 0, 1)).contiguous().to(torch.get_default_dtype()).div(255)


class Normalize(torch.nn.Module):
    def __init__(self, mean: Sequence[float] = MEANS, std: Sequence[float] = DEVIATIONS) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.as_tensor(v, dtype=tensor.dtype).view(-1, 1, 1) for v in (self.mean, self.std))
        return tensor.clone().sub_(mean).div_(std)


class ToImage:
    """The tensor that it makes is not contiguous."""

    def __call__(self, picture: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(picture)).permute((2, 0, 1))


class ToDtype:
    dtype = torch.float32

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(self.dtype).mul_(1.0 / 255)


def flip(picture: Any) -> Any:
    return picture.transpose(0) if torch.rand(1) < 0.5 else picture


def crop(picture: Any) -> Any:
    left, top = random.randint(0, 3), int(np.random.randint(4))
    return picture.crop((left, top, left + 9, top + 8))


def grey(picture: Any) -> Any:
    return picture.convert("L")


PIPELINES: dict[str, Callable[[], Any]] = {
    "random before": lambda: Compose([flip, crop, ToTensor(), Normalize()]),
    "to a tensor alone": ToTensor,
    "to a tensor in a list": lambda: Compose([flip, ToTensor()]),
    "grey": lambda: Compose([grey, flip, ToTensor(), Normalize([0.1307], [0.3081])]),
    "one mean for all": lambda: Compose([crop, ToTensor(), Normalize([0.5], [0.5])]),
    "normalized twice": lambda: Compose([ToTensor(), Normalize(), Normalize([0.5], [2.0])]),
    "by way of bytes": lambda: Compose([flip, ToImage(), ToDtype(), Normalize()]),
    "bytes are turned": lambda: Compose([ToImage(), turned, ToDtype(), Normalize()]),
    "a list in a list": lambda: Compose([flip, Compose([crop, Compose([ToTensor(), Normalize()])])]),
}


def turned(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.flip(-1) if torch.rand(1) < 0.5 else pixels


class Pictures(Dataset[Any]):
    def __init__(self, transform: Any, size: int = SIZE) -> None:
        self.transform = transform
        self.pixels = np.random.default_rng(3).integers(0, 256, (size, 12, 13, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.picture(index)), {"label": index % 4, "name": f"{index}"}

    def picture(self, index: int) -> Any:
        return Image.fromarray(self.pixels[index])


def seeded() -> None:
    torch.manual_seed(4), random.seed(4), np.random.seed(4)


def drawn(dataset: Any, **options: Any) -> list[Any]:
    """Two epochs from one seed, and the RNG states at their end."""
    seeded()
    options = {"batch_size": 5, "shuffle": True, **options}
    epochs = [list(DataLoader(dataset, **options)) for _ in range(2)]
    numpys: Any = np.random.get_state()
    return [*epochs, torch.get_rng_state(), list(random.getstate()[1]), numpys[1]]


def both(start: StartUnder, dataset: Any, **options: Any) -> Started:
    """The technique on, its batches those of the script."""
    theirs = drawn(dataset, **options)
    started = start(PLAN)
    assert same_batch(drawn(dataset, **options), theirs)
    return started


# ---- the same batches
@pytest.mark.parametrize(("name", "workers"), in_turn(PIPELINES, [0, 2]))
def test_batches_and_draws_are_the_scripts(started_under: StartUnder, name: str, workers: int) -> None:
    started = both(started_under, Pictures(PIPELINES[name]()), num_workers=workers)
    assert started.proof().evidence.startswith(f"{2 * SIZE} samples became tensors with their batch, 0 by")
    assert started.proof().effective


class Pair:
    """Of a picture's transforms and its target's."""

    def __init__(self, transform: Any) -> None:
        self.transform, self.target_transform = transform, None

    def __call__(self, picture: Any, target: Any) -> Any:
        return self.transform(picture), target


Pair.__name__ = "StandardTransform"


class ByPair(Pictures):
    """As torchvision's data sets."""

    def __init__(self, transform: Any) -> None:
        super().__init__(transform)
        self.transforms = Pair(transform)

    def __getitem__(self, index: int) -> Any:
        return self.transforms(self.picture(index), index)


class OtherName(Pictures):
    def __init__(self, transform: Any) -> None:
        super().__init__(None)
        self.augment = transform

    def __getitem__(self, index: int) -> Any:
        return [self.augment(self.picture(index)), self.augment(self.picture(index - 1))], index


SHAPES: dict[str, Callable[[Any], Any]] = {
    "a subset": lambda transform: Subset(Pictures(transform), range(2, 19)),
    "a subset of a subset": lambda transform: Subset(Subset(Pictures(transform), range(2, 19)), [5, 1, 1, 9]),
    "several": lambda transform: ConcatDataset([Pictures(transform), Pictures(transform, 7)]),
    "torchvision's pair": ByPair,
    "another name, two views": OtherName,
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("workers", [0, 1])
def test_data_sets_of_other_shapes(started_under: StartUnder, name: str, workers: int) -> None:
    dataset = SHAPES[name](PIPELINES["random before"]())
    started = both(started_under, dataset, num_workers=workers)
    assert started.proof().effective
    assert started.counted == 2 * len(dataset)


@pytest.mark.thorough
def test_workers_that_are_started_anew_do_it_too(started_under: StartUnder) -> None:
    dataset = Pictures(PIPELINES["random before"]())
    options: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "spawn"}
    assert both(started_under, dataset, **options).counted == 2 * SIZE


def test_workers_that_stay_do_it_too(started_under: StartUnder) -> None:
    dataset = Pictures(PIPELINES["random before"]())

    def read() -> list[Any]:
        seeded()
        made = DataLoader(dataset, batch_size=5, num_workers=1)
        return [list(made) for _ in range(2)]

    theirs = read()
    started = started_under(Plan({"batched_to_tensor": {}, "persistent_workers": {}}))
    assert same_batch(read(), theirs)
    assert started.proof("batched_to_tensor").effective
    assert started.proof("persistent_workers").effective


@settings(max_examples=60)
@given(
    mode=st.sampled_from(["L", "RGB", "RGBA"]),
    width=st.integers(1, 40),
    height=st.integers(1, 40),
    count=st.integers(1, 9),
    normalizing=st.booleans(),
    mean=st.floats(-2, 2, width=32),
    deviation=st.floats(0.0625, 3, width=32),
)
def test_pictures_of_any_size_and_mode(
    mode: str, width: int, height: int, count: int, normalizing: bool, mean: float, deviation: float
) -> None:
    channels = len(mode)
    tail: list[Any] = [ToTensor(), *([Normalize([mean], [deviation])] if normalizing else [])]
    late = Late(torch, tail)
    late.trust(late.prove())
    pixels = np.random.default_rng(width).integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    pictures = [Image.frombytes(mode, (width, height), one.tobytes()) for one in pixels]
    made: Any = [late(one) for one in pictures]
    assert same_batch(late.batch(made), default_collate([late.finish(one) for one in pictures]))
    assert same_batch([one.finished() for one in made], [late.finish(one) for one in pictures])


@pytest.mark.parametrize(("side", "at_once"), [(8, 21 * 3), (32, 10), (200, 1)])
def test_small_pictures_are_not_shared_among_threads(side: int, at_once: int) -> None:
    """torch shares 32768 elements and more: waiting for its threads may take longer than the work."""
    seen: list[int] = []

    class Noting(torch.Tensor):
        def div_(self, other: Any, **more: Any) -> Any:
            seen.append(len(self))
            return super().div_(other, **more)

    pixels = torch.randint(256, (at_once + 2, 3, side, side)).to(torch.uint8)
    floats = torch.empty(pixels.shape)
    convert(pixels, floats.as_subclass(Noting), [("div_", 255.0)])
    assert max(seen) * 3 * side * side < 32768 or at_once == 1
    assert max(seen) >= at_once
    assert torch.equal(floats, pixels / 255)


def test_pictures_of_several_sizes_are_batches_of_one(started_under: StartUnder) -> None:
    class Several(Pictures):
        def picture(self, index: int) -> Any:
            return super().picture(index).resize((9 + index % 3, 8))

    dataset = Several(Compose([flip, ToTensor(), Normalize()]))
    assert both(started_under, dataset, batch_size=1).proof().effective
    with pytest.raises(RuntimeError, match="equal size"):
        drawn(dataset)


# ---- what goes wrong in making a batch
class Seldom(Pictures):
    """One sample of many is used otherwise than handed on."""

    RARE = 77

    def __init__(self, use: Callable[[Any], Any]) -> None:
        super().__init__(Compose([flip, ToTensor(), Normalize()]), 200)
        self.use = use

    def __getitem__(self, index: int) -> Any:
        made, label = super().__getitem__(index)
        return (self.use(made) if index == self.RARE else made), label


def halved(tensor: Any) -> Any:
    return tensor.mul(torch.rand(1))


def looked_at(tensor: Any) -> Any:
    return tensor.repeat(3, 1, 1) if tensor.shape[0] == 1 else -tensor


def asked_for(tensor: Any) -> Any:
    return -tensor if isinstance(tensor, torch.Tensor) and hasattr(tensor, "shape") else tensor


def refusing(tensor: Any) -> Any:
    raise ValueError("this one cannot be read")


@pytest.mark.parametrize(("use", "workers"), [(halved, 0), (halved, 1), (looked_at, 0), (asked_for, 0)])
def test_where_a_picture_is_used_at_once_all_is_made_as_without_us(
    started_under: StartUnder, use: Callable[[Any], Any], workers: int
) -> None:
    started = both(started_under, Seldom(use), num_workers=workers)
    assert "a batch could not be made (TypeError" in started.proof().evidence
    assert not started.proof().effective


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_scripts_is_its_own(started_under: StartUnder, workers: int) -> None:
    started, dataset = started_under(PLAN), Seldom(refusing)
    with pytest.raises(ValueError, match="this one cannot be read"):
        list(DataLoader(dataset, batch_size=5, num_workers=workers))
    list(DataLoader(dataset, batch_size=5, num_workers=workers, sampler=range(20)))
    assert started.proof().effective


class Shifting(ToTensor):
    """It reads what cannot be seen."""

    def __call__(self, picture: Any) -> torch.Tensor:
        return super().__call__(picture) + float(_HIDDEN["shift"])


Shifting.__name__ = "ToTensor"
_HIDDEN = {"shift": 0.0}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_differs_ends_it(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(late_fetch, "BETWEEN_CHECKS", 1)
    dataset = Pictures(Compose([flip, Shifting()]))
    started = both(started_under, dataset, num_workers=workers)
    assert started.proof().evidence.split("; ")[1] == "10 were compared"
    monkeypatch.setitem(_HIDDEN, "shift", 1.0)
    seeded()
    ours = list(DataLoader(dataset, batch_size=5, num_workers=workers))
    monkeypatch.setitem(_HIDDEN, "shift", 1.0)
    started.seams.undo_all()
    seeded()
    assert same_batch(ours, list(DataLoader(dataset, batch_size=5, num_workers=workers)))
    assert "differs" in started.proof().evidence


# ---- changes
def test_changes_between_epochs_and_within_are_seen(started_under: StartUnder) -> None:
    def read(dataset: Any) -> list[Any]:
        seeded()
        dataset.transform = Compose([flip, ToTensor(), Normalize()])
        first = list(DataLoader(dataset, batch_size=5))
        dataset.transform = Compose([flip, ToTensor(), Normalize([0.5], [0.25])])
        second = list(DataLoader(dataset, batch_size=5))
        third = []
        for number, batch in enumerate(DataLoader(dataset, batch_size=5)):
            third.append(batch)
            if number == 1:
                dataset.transform = Compose([crop, ToTensor()])
            if number == 2:
                dataset.pixels = dataset.pixels[::-1]
        return [first, second, third, torch.get_rng_state()]

    theirs = read(Pictures(None))
    started = started_under(PLAN)
    dataset = Pictures(None)
    assert same_batch(read(dataset), theirs)
    assert started.counted == 2 * SIZE + 10
    assert started.proof().effective


def test_an_attribute_set_within_an_epoch_counts_from_the_next_batch(started_under: StartUnder) -> None:
    started, dataset = started_under(PLAN), Pictures(Compose([ToTensor()]))
    sums = []
    for batch, _ in DataLoader(dataset, batch_size=8):
        sums.append(float(batch.sum()))
        dataset.pixels = np.zeros_like(dataset.pixels)
    assert [one > 0 for one in sums] == [True, False, False]
    assert started.counted == SIZE


def test_other_default_types_are_left_alone(started_under: StartUnder) -> None:
    dataset = Pictures(Compose([ToTensor(), Normalize()]))
    started = started_under(PLAN)
    list(DataLoader(dataset, batch_size=5))
    torch.set_default_dtype(torch.float64)
    try:
        assert next(iter(DataLoader(dataset, batch_size=5)))[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert started.counted == SIZE


def test_when_the_seams_are_undone_batches_are_made_as_before(started_under: StartUnder) -> None:
    dataset = Pictures(Compose([ToTensor()]))
    started = started_under(PLAN)
    list(DataLoader(dataset, batch_size=5))
    started.seams.undo_all()
    list(DataLoader(dataset, batch_size=5, num_workers=1))
    assert started.counted == SIZE


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_set_that_the_script_drops_is_freed(started_under: StartUnder, workers: int) -> None:
    started_under(PLAN)
    dataset = Pictures(PIPELINES["random before"]())
    alive = weakref.ref(dataset)
    list(DataLoader(dataset, batch_size=5, num_workers=workers))
    del dataset
    gc.collect()
    assert alive() is None


def test_what_was_refused_is_not_looked_at_in_each_pass(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def noting(*given: Any) -> Any:
        asked.append(given)
        return proven(*given)

    monkeypatch.setattr(late_sets, "proven", noting)
    started_under(PLAN)
    dataset = Pictures(Compose([Counting()]))
    for _ in range(3):
        list(DataLoader(dataset, batch_size=5))
    dataset.transform = Compose([Counting()])
    list(DataLoader(dataset, batch_size=5))
    assert len(asked) == 2


# ---- what it leaves to the script
class ByPicture(Normalize):
    """Of each picture's own mean."""

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor - tensor.mean()


class Noisy(ToTensor):
    def __call__(self, picture: Any) -> torch.Tensor:
        return super().__call__(picture) + torch.rand(1) / 10


class Counting(ToTensor):
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, picture: Any) -> torch.Tensor:
        self.calls += 1
        return super().__call__(picture)


class ToTensorOfArray(ToTensor):
    def __call__(self, picture: Any) -> torch.Tensor:
        return super().__call__(picture if hasattr(picture, "getbands") else Image.fromarray(picture))


class Arrays(Pictures):
    def picture(self, index: int) -> Any:
        return self.pixels[index]


class Doubled(Pictures):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0] * 2


class Endless(Pictures):
    __len__ = None  # type: ignore[assignment]  # as a class without it


for _kind, _name in (
    (ByPicture, "Normalize"),
    (Noisy, "ToTensor"),
    (Counting, "ToTensor"),
    (ToTensorOfArray, "ToTensor"),
):
    _kind.__name__ = _name


@pytest.mark.parametrize(
    ("make", "options", "reason"),
    [
        pytest.param(lambda: Pictures(np.array), {}, "do not end with", id="no tensors"),
        pytest.param(lambda: Pictures(Compose([ToTensor(), turned])), {}, "do not end with", id="more after"),
        pytest.param(
            lambda: Pictures(Compose([ToTensor(), turned, Normalize()])), {}, "do not end", id="more between"
        ),
        pytest.param(
            lambda: Pictures(Compose([ToTensor(), ByPicture()])), {}, "do more than scale", id="own means"
        ),
        pytest.param(lambda: Pictures(Compose([Noisy()])), {}, "do more than scale", id="random at the end"),
        pytest.param(lambda: Arrays(Compose([ToTensorOfArray()])), {}, "something other than", id="arrays"),
        pytest.param(lambda: Pictures(Compose([Counting()])), {}, "own state", id="a transform with a state"),
        pytest.param(lambda: Endless(ToTensor()), {"sampler": range(10)}, "has no length", id="no length"),
        pytest.param(lambda: Doubled(Compose([ToTensor()])), {}, "unsupported operand", id="more in the set"),
        pytest.param(
            lambda: Pictures(Compose([ToTensor()])), {"collate_fn": list}, "function of the script's own",
            id="a collate function",
        ),
        pytest.param(lambda: Pictures(ToTensor()), {"batch_size": None}, "sample by sample", id="no batches"),
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(
    started_under: StartUnder, make: Callable[[], Any], options: dict[str, Any], reason: str
) -> None:
    started, dataset = started_under(PLAN), make()
    made = DataLoader(dataset, **{"batch_size": 5, **options})
    seeded()
    ours = list(made)
    started.board.switch(Plan({}))
    with pytest.raises(NotApplicable) as refused:
        started.board.switch(PLAN)
    assert reason in str(refused.value)
    started.seams.undo_all()
    seeded()
    assert same_batch(ours, list(made))


def test_default_collate_that_learned_another_way_with_tensors(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = started_under(PLAN)
    table = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(table, torch.Tensor, lambda batch, *, collate_fn_map=None: torch.stack(batch) + 1)
    batch, _ = next(iter(DataLoader(Pictures(ToTensor()), batch_size=5)))
    assert float(batch.min()) >= 1
    assert not started.proof().effective


@pytest.mark.parametrize(
    ("transforms", "count"),
    [
        ([], 0),
        ([flip, ToTensor()], 1),
        ([flip, ToTensor(), Normalize()], 2),
        ([Normalize()], 0),
        ([flip, ToImage(), ToDtype(), Normalize(), Normalize()], 4),
        ([ToImage(), flip, ToDtype()], 1),
        ([ToImage()], 0),
        ([ToTensor(), flip], 0),
        ([ToTensor(), flip, Normalize()], 0),
    ],
)
def test_which_transforms_are_the_last(transforms: list[Any], count: int) -> None:
    assert tail_of(transforms) == count


def test_transforms_of_another_precision_are_not_put_off() -> None:
    half = ToDtype()
    half.dtype = torch.float16
    assert tail_of([ToImage(), half]) == 0


def test_choosing_among_transforms_is_no_list_of_them() -> None:
    class RandomChoice(Compose):
        pass

    with pytest.raises(LookupError, match="do not end"):
        LateDataset(torch, Pictures(RandomChoice([flip, ToTensor()])))


# ---- refusals on paper
def step(waiting: float) -> Step:
    phases = dict.fromkeys(("loss", "backward", "optimizer", "other"), 0.0)
    return Step(1.0, 32, 0, 0, {**phases, "data": waiting, "forward": 1.0 - waiting}, (0.0,), (0, 1, 1))


PICTURES = loader(pictures=True)


def test_it_applies_to_pictures_that_are_waited_for() -> None:
    assert BatchedToTensor.refuse(facts(loaders=(PICTURES,), steps=(step(0.5),))) == []
    assert BatchedToTensor.refuse(facts(loaders=(loader(pictures=True, workers=4),))) == []
    assert BatchedToTensor.refuse(facts(loaders=(PICTURES, loader()))) == []


@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        ((), "no DataLoader"),
        ((loader(pictures=True, training=False),), "no DataLoader"),
        ((loader(),), "do not end with those that turn pictures"),
        ((loader(pictures=True, iterable=True, samples=None),), "as a stream"),
        ((loader(pictures=True, default_fetch=False),), "sample by sample"),
        ((loader(pictures=True, default_collate=False),), "function of the script's own"),
    ],
)
def test_what_it_refuses(loaders: Any, reason: str) -> None:
    (found,) = BatchedToTensor.refuse(facts(loaders=loaders))
    assert reason in found


def test_a_training_that_does_not_wait_is_refused() -> None:
    (found,) = BatchedToTensor.refuse(facts(loaders=(PICTURES,), steps=(step(0.01),)))
    assert "1.0% of a step" in found
    assert "macOS" in BatchedToTensor.refuse_machine(machine(system="macOS"))[0]
