"""Batches that are sent as bytes are the script's floats to the last bit, wherever it looks at them. Main
memory stands in for the GPU.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from hasten.inside.internals.late_tensor import LateTensor
from hasten.inside.samples.byte_batches import ByteBatch
from hasten.inside.samples.columns import same_batch
from hasten.inside.techniques.support import sent_bytes
from hasten.inside.techniques.uint8_transfer import Uint8Transfer
from hasten.inside.training import NotApplicable
from hasten.records.plan import Plan
from hasten.testing.byte_pictures import BytePictures

from ..thorough import in_turn
from .made_up import facts, loader, machine, root
from .reading import Started, StartUnder
from .test_batched_to_tensor import PIPELINES, Pictures, drawn, seeded

PLAN = Plan({"uint8_transfer": {}})
GPU = machine(accelerators=("made up",))
ON_GPU = (root(devices=("cuda:0",)),)


@pytest.fixture(autouse=True)
def _main_memory_is_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Uint8Transfer, "device", "cpu")


def on_the_device(batch: Any) -> Any:
    """As scripts send it."""
    pictures, labels = batch
    return [pictures.to("cpu"), labels]


def sent(dataset: Any, **options: Any) -> list[Any]:
    seeded()
    made = DataLoader(dataset, **{"batch_size": 5, "shuffle": True, **options})
    return [*(on_the_device(batch) for _ in range(2) for batch in made), torch.get_rng_state()]


# ---- the same floats
@pytest.mark.parametrize(("name", "workers"), in_turn(PIPELINES, [0, 2]))
def test_floats_on_the_device_are_the_scripts(started_under: StartUnder, name: str, workers: int) -> None:
    dataset = Pictures(PIPELINES[name]())
    theirs = sent(dataset, num_workers=workers)
    started = started_under(PLAN)
    ours = sent(dataset, num_workers=workers)
    assert same_batch(ours, theirs)
    assert {type(batch[0]) for batch in ours[:-1]} == {torch.Tensor}
    assert started.proof().evidence == "10 batches of pictures were sent as bytes, 0 became floats before"
    assert started.proof().effective


@pytest.mark.parametrize("workers", [0, 2])
def test_floats_that_stay_are_the_scripts(started_under: StartUnder, workers: int) -> None:
    dataset = Pictures(PIPELINES["random before"]())
    theirs = drawn(dataset, num_workers=workers)
    started = started_under(PLAN)
    ours = drawn(dataset, num_workers=workers)
    ours[:2] = [[[batch[0] + 0, batch[1]] for batch in epoch] for epoch in ours[:2]]
    theirs[:2] = [[[batch[0] + 0, batch[1]] for batch in epoch] for epoch in theirs[:2]]
    assert same_batch(ours, theirs)
    assert started.proof().evidence == "0 batches of pictures were sent as bytes, 10 became floats before"
    assert not started.proof().effective


@pytest.fixture
def pair(started_under: StartUnder) -> tuple[Any, torch.Tensor, Started]:
    """A batch as the script gets it, the floats that it stands for, and the reading."""
    dataset = Pictures(PIPELINES["random before"]())
    seeded()
    theirs = next(iter(DataLoader(dataset, batch_size=5)))[0]
    started = started_under(PLAN)
    seeded()
    return next(iter(DataLoader(dataset, batch_size=5)))[0], theirs, started


def test_it_tells_what_it_will_be_without_being_made(pair: tuple[Any, torch.Tensor, Started]) -> None:
    late, floats, started = pair

    def told(tensor: Any) -> list[Any]:
        return [
            *(tensor.shape, tensor.size(), tensor.size(0), len(tensor), tensor.dtype, tensor.device),
            *(tensor.ndim, tensor.dim(), tensor.numel(), tensor.stride(), tensor.is_contiguous()),
            *(tensor.requires_grad, tensor.is_cuda, tensor.element_size(), tensor.is_floating_point()),
        ]

    assert told(late) == told(floats)
    assert isinstance(late, torch.Tensor)
    assert torch.is_tensor(late)
    assert "0 became floats before" in started.proof().evidence


USES: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x - x.mean()) * 2 + 1 / (x + 5),
    "the other way round": lambda x: 1 - x,
    "a row": lambda x: x[0],
    "rows": list,
    "a mask": lambda x: x[x > 0],
    "another type": lambda x: x.double(),
    "another type on the way": lambda x: x.to("cpu", torch.float64),
    "another layout": lambda x: x.to("cpu", memory_format=torch.channels_last),
    "in a list": lambda x: torch.stack([x, x]),
    "by name": lambda x: torch.nn.functional.conv2d(input=x, weight=torch.ones(2, 3, 3, 3)),
    "by an operator": lambda x: torch.ops.aten.mul.Tensor(x, x),
    "a layer": lambda x: torch.nn.functional.relu(torch.nn.Flatten()(x)),
    "numpy": lambda x: x.numpy(),
    "numbers": lambda x: x.tolist(),
    "text": repr,
    "a copy": copy.deepcopy,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "written into": lambda x: x.add_(1) is None or [x + 0, x.to("cpu")],
    "a part written into": lambda x: x[1:].zero_() is None or x.to("cpu"),
    "set": lambda x: x.__setitem__(0, 7.0) or x.to("cpu"),
    "written into by numpy": lambda x: x.numpy().fill(3) or x.to("cpu"),
    "looked at and sent": lambda x: [x.sum(), x.to("cpu")],
    "its data set": lambda x: x.__setattr__("data", torch.ones(5, 3, 8, 9)) or x.to("cpu"),
    "made into another": lambda x: torch.empty_like(x).shape,
    "an output": lambda x: torch.add(torch.ones(5, 3, 8, 9), 1, out=x) is None or x.to("cpu"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_whatever_is_done_with_it_is_done_with_the_floats(
    pair: tuple[Any, torch.Tensor, Started], use: Callable[[Any], Any]
) -> None:
    late, floats, _ = pair
    assert same_batch(use(late), use(floats))


@pytest.mark.parametrize("use", ["arithmetic", "another type on the way", "by name", "looked at and sent"])
def test_an_evaluation_in_inference_mode_has_the_floats(
    pair: tuple[Any, torch.Tensor, Started], use: str
) -> None:
    late, floats, _ = pair
    with torch.inference_mode():
        assert same_batch(USES[use](late), USES[use](floats))


def test_what_an_evaluation_looked_at_first_can_be_trained_on(
    pair: tuple[Any, torch.Tensor, Started],
) -> None:
    late, floats, _ = pair
    weight = torch.ones(2, 3, 3, 3, requires_grad=True)
    with torch.inference_mode():
        late.sum()
    torch.nn.functional.conv2d(late, weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert same_batch(late.to("cpu"), floats)


def test_gradients_of_pictures_are_theirs(pair: tuple[Any, torch.Tensor, Started]) -> None:
    late, floats, _ = pair
    for pictures in (late, floats):
        pictures.requires_grad_()
        (pictures.to("cpu") ** 2).sum().backward()
    assert late.requires_grad
    assert torch.equal(late.grad, floats.grad)  # type: ignore[arg-type]


def test_what_was_only_looked_at_is_still_sent_as_bytes(pair: tuple[Any, torch.Tensor, Started]) -> None:
    late, floats, started = pair
    late.detach().sum()
    assert same_batch(late.to("cpu", non_blocking=True), floats)
    assert started.proof().evidence == "1 batches of pictures were sent as bytes, 1 became floats before"


def test_what_torchs_own_code_asks_past_the_methods(pair: tuple[Any, torch.Tensor, Started]) -> None:
    late, floats, _ = pair
    with torch._C.DisableTorchFunctionSubclass():
        assert same_batch(torch.mul(late, 2), torch.mul(floats, 2))


def test_bytes_are_pinned_for_the_floats() -> None:
    pixels = torch.arange(24, dtype=torch.uint8).view(1, 2, 4, 3)
    table = torch.arange(768, dtype=torch.float32)
    made = ByteBatch(pixels, "RGB", table.numpy().tobytes(), True)
    noted: list[Any] = []

    class Pinning(torch.Tensor):
        def pin_memory(self, *device: Any) -> Any:
            noted.append(device)
            return pixels

    made.pixels = pixels.as_subclass(Pinning)
    pinned = made.pin_memory()
    assert noted == [()]
    assert torch.equal(pinned.floats(torch, pinned.pixels, table), made.floats(torch, pixels, table))


# ---- what goes wrong
def test_floats_that_differ_on_the_device_are_not_used(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Pictures(PIPELINES["random before"]())
    theirs = sent(dataset)
    monkeypatch.setattr(sent_bytes, "same_batch", lambda a, b: False)
    started = started_under(PLAN)
    assert same_batch(sent(dataset), theirs)
    assert "pictures of bytes become other floats on cpu" in started.proof().evidence
    assert not started.proof().effective


def test_where_the_device_has_no_room_floats_are_sent(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> Any:
        raise torch.OutOfMemoryError("no room")

    dataset = Pictures(PIPELINES["random before"]())
    theirs = sent(dataset)
    monkeypatch.setattr(sent_bytes.SentBytes, "_on", full)
    started = started_under(PLAN)
    assert same_batch(sent(dataset), theirs)
    assert not started.proof().effective


class Named(dict[str, Any]):
    pass


class NamedPictures(Pictures):
    def __getitem__(self, index: int) -> Any:
        return Named(picture=super().__getitem__(index)[0])


@pytest.mark.parametrize("workers", [0, 1])
def test_containers_that_torch_does_not_know_hold_floats(started_under: StartUnder, workers: int) -> None:
    dataset = NamedPictures(PIPELINES["random before"]())

    def read() -> list[Any]:
        seeded()
        return [batch["picture"] for batch in DataLoader(dataset, batch_size=5, num_workers=workers)]

    theirs = read()
    started = started_under(PLAN)
    assert same_batch(read(), theirs)
    assert "a Named holds them" in started.proof().evidence


def test_when_the_seams_are_undone_batches_are_plain(started_under: StartUnder) -> None:
    started = started_under(PLAN)
    assert type(next(iter(DataLoader(BytePictures())))[0]) is LateTensor
    started.seams.undo_all()
    assert type(next(iter(DataLoader(BytePictures())))[0]) is torch.Tensor


def test_without_a_gpu_it_does_not_apply(started_under: StartUnder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotApplicable, match="no CUDA device"):
        started_under(PLAN)


# ---- refusals on paper
def test_it_applies_to_pictures_that_are_trained_on_by_a_gpu() -> None:
    assert Uint8Transfer.refuse(facts(GPU, loaders=(loader(pictures=True),), roots=ON_GPU)) == []


@pytest.mark.parametrize(
    ("on", "other", "reason"),
    [
        (machine(), {"roots": ON_GPU}, "no GPU"),
        (GPU, {}, "on cpu"),
        (GPU, {"roots": ON_GPU, "loaders": (loader(),)}, "do not end with"),
        (GPU, {"roots": ON_GPU, "loaders": ()}, "no DataLoader"),
    ],
)
def test_what_it_refuses(on: Any, other: dict[str, Any], reason: str) -> None:
    (found,) = Uint8Transfer.refuse(facts(on, **{"loaders": (loader(pictures=True),), **other}))
    assert reason in found
