"""Pictures that torch resizes are Pillow's but for 1 of 255 here and there; the rest is asked of Pillow."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.samples import resizing
from hasten.inside.samples.resizing import LIMIT, difference
from hasten.inside.techniques.native_resize import NativeResize
from hasten.inside.training import NotApplicable
from hasten.machine import this_machine
from hasten.records.plan import Plan

from .made_up import facts, loader, machine
from .reading import Started, StartUnder

pytest.importorskip("PIL", reason="pictures are Pillow's here, which is not installed")
from PIL import Image

PLAN = Plan({"native_resize": {}})
REFUSED = NativeResize.refuse_machine(this_machine())
pytestmark = pytest.mark.skipif(bool(REFUSED), reason="; ".join(REFUSED) or "it is not refused here")
BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
SIZES = {"smaller": (32, 24), "larger": (130, 101), "flat": (90, 7), "one pixel": (1, 1)}


def picture(mode: str = "RGB", size: tuple[int, int] = (90, 67), seed: int = 3) -> Any:
    """Noise: no picture is harder to resize."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    return Image.fromarray(pixels, "RGBA").convert(mode)


@pytest.fixture
def started(started_under: StartUnder) -> Started:
    return started_under(PLAN)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No picture is given that Pillow resized to be compared with."""
    monkeypatch.setattr(resizing, "FIRST_CHECKS", 0)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("how", [BILINEAR, BICUBIC, None])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pictures_are_pillows_but_for_little(
    started_under: StartUnder, unchecked: None, mode: str, how: Any, size: tuple[int, int]
) -> None:
    source = picture(mode)
    source.info["dpi"] = (72, 72)
    theirs = source.resize(size, how)
    started = started_under(PLAN)
    ours = source.resize(size, how)
    assert (ours.mode, ours.size, ours.info, type(ours)) == (mode, size, {"dpi": (72, 72)}, type(theirs))
    assert difference(torch, ours, theirs) <= LIMIT
    assert source.tobytes() == picture(mode).tobytes()
    assert started.proof().evidence.startswith("1 pictures were resized by torch")
    assert started.proof().effective


OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "part of it": lambda one: one.resize((20, 20), BILINEAR, (1, 2, 60, 50)),
    "in two steps": lambda one: one.resize((20, 20), BILINEAR, reducing_gap=2.0),
    "another filter": lambda one: one.resize((20, 20), Image.Resampling.NEAREST),
    "the size that it has": lambda one: one.resize(one.size, BILINEAR),
    "with transparency": lambda one: one.convert("RGBA").resize((20, 20), BILINEAR),
    "with a palette": lambda one: one.convert("P").resize((20, 20)),
    "more than a million pixels": lambda one: one.resize((1100, 1000), BILINEAR),
    "a thumbnail": lambda one: one.thumbnail((20, 20)) or one,
}


@pytest.mark.parametrize("ask", OTHERWISE.values(), ids=OTHERWISE)
def test_what_is_asked_otherwise_is_pillows(started_under: StartUnder, ask: Callable[[Any], Any]) -> None:
    theirs = ask(picture())
    started = started_under(PLAN)
    assert ask(picture()).tobytes() == theirs.tobytes()
    assert not started.proof().effective


@pytest.mark.parametrize(
    ("size", "how"), [((0, 5), BILINEAR), ((5,), BILINEAR), ((5, 5), 17), ("ab", BILINEAR)]
)
def test_pillow_says_itself_what_is_wrong(started_under: StartUnder, size: Any, how: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        picture().resize(size, how)
    started_under(PLAN)
    with pytest.raises(type(theirs.value)) as ours:
        picture().resize(size, how)
    assert str(ours.value) == str(theirs.value)


def test_a_picture_that_cannot_be_read_is_no_reason_to_stop(started: Started, tmp_path: Any) -> None:
    path = tmp_path / "cut.png"
    picture().save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with Image.open(path) as cut, pytest.raises(OSError, match="truncated"):
        cut.resize((10, 10), BILINEAR)
    picture().resize((10, 10), BILINEAR)
    assert started.proof().effective


class Resized(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return np.array(picture(seed=index).resize((10, 10), BILINEAR))


@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_of_workers_are_counted(started: Started, workers: int) -> None:
    started.epoch(Resized(), num_workers=workers)
    assert started.counted == 12
    assert started.proof().effective


def test_children_of_the_scripts_own_resize_by_pillow_where_torch_has_several_threads(
    started_under: StartUnder, unchecked: None
) -> None:
    large, size, threads = picture(size=(640, 480)), (400, 300), torch.get_num_threads()
    theirs = large.resize(size, BILINEAR).tobytes()
    started_under(PLAN)
    torch.set_num_threads(2)
    try:
        torch.ones(1000, 1000).add(1).sum()  # OpenMP's threads are there
        assert large.resize(size, BILINEAR).tobytes() != theirs
        assert in_a_fork(lambda: large.resize(size, BILINEAR).tobytes()) == theirs
    finally:
        torch.set_num_threads(threads)


def in_a_fork(make: Callable[[], bytes]) -> bytes:
    """What a child makes, which has a few seconds for it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(make())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        made = pipe.read()
    os.waitpid(child, 0)
    return made


def test_the_first_ones_are_compared_and_pillows_own_are_given(started_under: StartUnder) -> None:
    theirs = [picture(seed=n).resize((10, 10), BILINEAR).tobytes() for n in range(4)]
    started = started_under(PLAN)
    assert [picture(seed=n).resize((10, 10), BILINEAR).tobytes() for n in range(4)] == theirs
    assert "of 4 that were compared with Pillow's" in started.proof().evidence


def test_where_one_differs_by_too_much_pillow_is_used_again(
    started_under: StartUnder, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = picture().resize((10, 10), BILINEAR).tobytes()
    monkeypatch.setattr(resizing, "LIMIT", -1)
    started = started_under(PLAN)
    for _ in range(6):
        assert picture().resize((10, 10), BILINEAR).tobytes() == theirs
    assert "differs from Pillow's by" in started.proof().evidence
    assert started.counted == 1
    assert not started.proof().effective


def test_the_method_is_pillows_own_again(started: Started) -> None:
    replaced = Image.Image.resize
    started.seams.undo_all()
    assert Image.Image.resize is not replaced
    assert Image.Image.resize.__module__ == "PIL.Image"


def test_without_pillow_it_does_not_apply(started_under: StartUnder, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "PIL.Image")
    with pytest.raises(NotApplicable, match="has not imported Pillow"):
        started_under(PLAN)


# ---- refusals on paper
def test_it_applies_to_a_training_whose_pictures_are_resized() -> None:
    assert NativeResize.refuse(facts(loaders=(loader(resizes=True),))) == []


def test_samples_that_are_kept_in_memory_are_resized_once() -> None:
    (reason,) = NativeResize.refuse(facts(loaders=(loader(resizes=True, random=""),)))
    assert reason == "dataset_in_ram keeps its samples, which are the same each time"
    kept_by_nobody = loader(resizes=True, random="", workers=2)
    assert NativeResize.refuse(facts(loaders=(kept_by_nobody,))) == []


@pytest.mark.parametrize(
    ("loaders", "on", "reason"),
    [
        ((), machine(), "no DataLoader"),
        ((loader(),), machine(), "no transform of Pictures resizes"),
        ((loader(resizes=True),), machine(system="macOS"), "macOS"),
        ((loader(resizes=True),), machine(cpu_flags=("sse4_1",)), "AVX2"),
    ],
)
def test_what_it_refuses(loaders: Any, on: Any, reason: str) -> None:
    (found,) = NativeResize.refuse(facts(on, loaders=loaders))
    assert reason in found


class Transform:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class RandomResizedCrop:
    pass


@pytest.fixture
def held() -> Transform:
    return Transform(transforms=[print, RandomResizedCrop()])


def test_a_transform_that_resizes_is_seen_in_lists_and_behind_subsets(held: Any) -> None:
    dataset = Transform(transform=held)
    assert resizing.resizes(dataset)
    assert resizing.resizes(torch.utils.data.Subset(dataset, [0]))  # type: ignore[arg-type]
    assert resizing.resizes(Transform(transforms=Transform(transform=held)))
    assert not resizing.resizes(Transform(transform=Transform(transforms=[print])))
