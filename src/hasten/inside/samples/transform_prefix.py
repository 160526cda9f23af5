"""Samples made up to their first random transform, for datasets like torchvision's.

Such a dataset has a ``transform`` whose ``transforms`` are called one after another on a part of each sample.
Those before the first random one give the same result every time, which can be kept. The rest are called on a
copy of it each time, with the same random draws, in the same order, as without us.

Source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Compose.html
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from statistics import median
from types import ModuleType
from typing import Any

from ..living import reference
from ..random_state import fingerprint, rng_states, set_rng_states
from .draws_in_samples import Drawing, as_another_process
from .late_dataset import same_objects
from .output_watch import OutputWatch
from .sampling_proof import (
    MadeFrom,
    Marked,
    chain,
    drawn_apart,
    incomparable,
    is_picture,
    same_sample,
    sample_nbytes,
    spread,
    state_of,
)


class Divided:
    """A dataset whose samples are made in two parts: ``make`` up to some transform, ``finish`` from there. It
    does not keep the dataset alive.
    """

    def __init__(self, dataset: Any, count: int) -> None:
        """``count`` transforms belong to the first part. Raises LookupError if there is none to divide."""
        path = _path(dataset)
        if not path:
            raise LookupError(f"{type(dataset).__name__} has no transforms")
        self._dataset, self._owner = reference(dataset), reference(path[-1])
        self._compose = path[-1].transform
        self._transforms = list(self._compose.transforms)
        self.count = count
        self._cut = self._with_first(count, path)

    def make(self, index: int) -> object:
        """The sample with Marked where the remaining transforms continue."""
        return self._cut[index]

    def finish(self, made: Any) -> object:
        """The sample. ``made`` stays as it is."""
        if isinstance(made, Marked):
            value = duplicate(made.value)
            for transform in self._compose.transforms[self.count :]:
                value = transform(value)
            return value
        if type(made) in (tuple, list):
            return type(made)([self.finish(part) for part in made])
        if type(made) is dict:
            return {key: self.finish(part) for key, part in made.items()}
        return made

    def __str__(self) -> str:
        return f"the last {len(self._transforms) - self.count} transforms are called anew for each"

    @property
    def is_intact(self) -> bool:
        """Whether the dataset still has the transforms that were divided."""
        now = getattr(self._owner(), "transform", None)
        return now is self._compose and same_objects(self._transforms, now.transforms)

    @property
    def parts(self) -> list[object]:
        """What the first part of every sample is made from."""
        return [*chain(self._dataset()), self._compose, *self._transforms[: self.count]]

    @property
    def first_part(self) -> object:
        """The dataset as it makes the first part of samples."""
        return self._cut

    def state(self) -> object:
        """A fingerprint of what the first part of every sample is made from."""
        held = [
            {k: v for k, v in vars(part).items() if k not in ("transform", "transforms", "dataset")}
            for part in chain(self._dataset())
            if hasattr(part, "__dict__")
        ]
        return [*map(state_of, held), *map(state_of, self._transforms[: self.count]), self.is_intact]

    def _with_first(self, count: int, path: Sequence[Any]) -> Any:
        """A shallow copy of the dataset that calls the first transforms only and marks their result. ``path``
        leads from it to the one that has them.
        """
        cut = copy.copy(self._compose)
        vars(cut)["transforms"] = [*self._transforms[:count], _mark]
        inner = copy.copy(path[-1])
        vars(inner)["transform"] = cut
        both = getattr(path[-1], "transforms", None)  # torchvision's: of the image and of its target
        if getattr(both, "transform", None) is self._compose:
            vars(inner)["transforms"] = both = copy.copy(both)
            vars(both)["transform"] = cut
        for outer in reversed(path[:-1]):
            wrapped, inner = inner, copy.copy(outer)
            vars(inner)["dataset"] = wrapped
        return inner


def divide(
    torch: ModuleType, dataset: Any, length: int, least_spared: float | None = None
) -> tuple[Divided | str, int]:
    """The dataset divided before its first random transform, and the bytes of its largest unfinished sample;
    (why not, 0) if that cannot be proven to give the same samples. ``least_spared``: the share of the time of
    making samples that is to be saved, if that matters.
    """
    try:
        whole = Divided(dataset, 0)
    except Exception as error:  # whatever copying objects of the script's raises
        return str(error), 0
    reason, count = drawn_apart(torch, dataset, lambda: _find(torch, whole, dataset, length))
    if reason:
        return reason, 0
    divided = Divided(dataset, count)
    reason, sample_bytes = drawn_apart(
        torch, dataset, lambda: _examine(torch, divided, dataset, length, least_spared)
    )
    return (reason, 0) if reason else (divided, sample_bytes)


def has_transforms(dataset: object) -> bool:
    """Whether there is something to divide."""
    return bool(_path(dataset))


def duplicate(value: Any) -> object:
    """A copy that a transform may write into; strides are kept."""
    if hasattr(value, "element_size"):
        return value.clone()
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return value.copy(order="K") if value.ndim else value
    return value.copy() if is_picture(value) else copy.deepcopy(value)


def _path(dataset: Any) -> list[Any]:
    """The dataset and those it wraps, down to the one with the transforms; empty if there is none."""
    path = [dataset]
    while len(path) < 100:
        compose = getattr(path[-1], "transform", None)
        if isinstance(getattr(compose, "transforms", None), (list, tuple)) and callable(compose):
            return path
        inner = getattr(path[-1], "dataset", None)
        if inner is None:
            break
        path.append(inner)
    return []


def _mark(*values: object) -> Marked:
    (value,) = values
    return Marked(value)


def _marks_in(sample: Any) -> int:
    if isinstance(sample, dict):
        sample = list(sample.values())
    return sum(map(_marks_in, sample)) if isinstance(sample, (tuple, list)) else isinstance(sample, Marked)


def _find(torch: ModuleType, whole: Divided, dataset: Any, length: int) -> tuple[str, int]:
    """("", how many transforms come before the first random one and give what can be compared)."""
    transforms, drawing = whole._transforms, Drawing(torch, dataset, apart=True)
    limit, useless = len(transforms), set[int]()
    for index in spread(length):
        made = whole.make(index)
        if not _marks_in(made):
            return f"{type(dataset).__name__} does not return what its transforms made", 0
        value = _marked_value(made)
        for number in range(limit + 1):
            if incomparable(value):
                useless.add(number)
            if number == limit:
                break
            state = state_of(transforms[number])
            drawing.begin()
            first = transforms[number](duplicate(value))
            moved = drawing.drew
            with as_another_process(torch, dataset, index):
                drawing.begin()
                again = transforms[number](duplicate(value))
                moved |= drawing.drew or state_of(transforms[number]) != state
            if moved or not (incomparable(first) or same_sample(first, again)):
                limit = number
                break
            value = first
    counts = [number for number in range(limit + 1) if number not in useless]
    return ("", counts[-1]) if counts else ("its transforms begin with what cannot be compared", 0)


def _marked_value(made: Any) -> object:
    if isinstance(made, Marked):
        return made.value
    parts = made.values() if isinstance(made, dict) else made
    return _marked_value(next(part for part in parts if _marks_in(part)))


class Spared:
    """What keeping first parts spares: medians over samples, as one may be interrupted."""

    def __init__(self) -> None:
        self.whole, self.first_part, self.copies = Times(), Times(), Times()

    @property
    def share(self) -> float:
        """Of the time of making samples."""
        return (self.first_part.usual - self.copies.usual) / max(self.whole.usual, 1e-9)


class Times:
    """The seconds within each of its contexts."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *raised: object) -> None:
        self._seconds.append(time.perf_counter() - self._began)

    @property
    def usual(self) -> float:
        return median(self._seconds)


def _examine(
    torch: ModuleType, divided: Divided, dataset: Any, length: int, least_spared: float | None
) -> tuple[str, int]:
    """("", bytes of the largest unfinished sample) where samples made in two parts are the dataset's."""
    name, cut, largest, spared = type(dataset).__name__, divided.first_part, 0, Spared()
    drawing, output = Drawing(torch, cut, apart=True), OutputWatch()
    before: MadeFrom | None = None
    for index in spread(length):
        start = rng_states(torch)
        with spared.whole:
            sample = dataset[index]
        kind, end = incomparable(sample), fingerprint(torch)
        if kind:
            return f"samples of {name} hold {kind} objects, which cannot be compared byte by byte", 0
        set_rng_states(torch, start)
        drawing.begin()
        with spared.first_part:
            made = divided.make(index)
        before = before or MadeFrom(cut, output)
        drew = drawing.drew
        with as_another_process(torch, dataset, index):
            drawing.begin()
            again = divided.make(index)
            drew |= drawing.drew
        if drew:
            return f"drawing a sample of {name} draws random numbers outside of its transforms", 0
        if not _marks_in(made) or not same_sample(made, again):
            return f"sample {index} of {name} differs before its first random transform", 0
        if not same_sample(divided.finish(made), sample) or fingerprint(torch) != end:
            return f"sample {index} of {name} differs when its random transforms are called separately", 0
        largest = max(largest, sample_nbytes(made))
        with spared.copies:
            duplicate(_marked_value(made))
    done = before.why_another() if before is not None else ""
    if done:
        return f"drawing a sample of {name} {done}", 0
    if least_spared is not None and spared.share < least_spared:
        little = (
            f"what comes before its first random transform takes {max(0.0, spared.share):.0%} of the time"
        )
        return f"there is little to keep: {little}", 0
    return "", largest
