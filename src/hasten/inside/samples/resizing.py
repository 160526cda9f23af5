"""Resizes Pillow pictures with torch's kernel for bytes, which follows Pillow's and is faster.

Its weights have 16 bits instead of Pillow's 22, so a byte may differ by 1, rarely by 2. Other kinds of
pictures, and other ways to call it, go to Pillow as usual.

Sources: https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.Image.resize,
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from ..seams import Call
from .sampling_proof import chain
from .store_counts import Counts

LIMIT = 2  # of 255: larger differences are not used
FIRST_CHECKS, BETWEEN_CHECKS = 4, 500  # pictures of a process
LARGEST = 2**20  # pixels: for more, passing them costs about what it saves
_MODES = ("L", "RGB")
_FILTERS = {2: "bilinear", 3: "bicubic", None: "bicubic"}  # Pillow's numbers; None: its usual one


class Resizing:
    """Resizes instead of ``original``, and counts in all processes forked from this one."""

    def __init__(self, torch: ModuleType, images: ModuleType, original: Call) -> None:
        self.counts = Counts()
        self._torch = torch
        self._images = images
        self._original = original
        self._made = 0  # by this process, and by its parent before the fork
        self._home = os.getpid()

    def __call__(
        self, picture: Any, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None
    ) -> Any:
        usual = box is None and reducing_gap is None and _is_usual(picture, size, resample)
        if not usual or self.counts.given_up or not self._may_compute:
            return self._original(picture, size, resample, box, reducing_gap)
        try:
            made = self.resized(picture, tuple(size), _FILTERS[resample])
        except Exception as error:
            own = self._original(picture, size, resample)  # raises the picture's own error
            self.counts.give_up(f"a picture could not be resized ({type(error).__name__}: {error})")
            return own
        return self._checked(picture, made, size, resample)

    @property
    def _may_compute(self) -> bool:
        """OpenMP does not survive a fork: with several threads, torch's kernels would wait for ever in the
        script's own children. A loader's worker has one.
        """
        return os.getpid() == self._home or self._torch.get_num_threads() == 1

    def resized(self, picture: Any, size: tuple[int, int], mode: str) -> Any:
        """A new picture of ``size``, (width, height)."""
        torch = self._torch
        channels = len(picture.mode)
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        lying = pixels.view(1, picture.size[1], picture.size[0], channels).permute(0, 3, 1, 2)
        found = torch.nn.functional.interpolate(lying, size[::-1], mode=mode, antialias=True)
        data = found.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
        made = self._images.frombytes(picture.mode, size, data)
        made.info = picture.info.copy()
        return made

    def _checked(self, picture: Any, made: Any, size: Any, resample: Any) -> Any:
        """``made``, or now and then Pillow's own, which it is compared with."""
        self._made += 1
        if self._made > FIRST_CHECKS and self._made % BETWEEN_CHECKS:
            self.counts.add(os.getpid(), 1, 0, 0)
            return made
        own = self._original(picture, size, resample)
        apart = difference(self._torch, made, own)
        if apart > LIMIT:
            self.counts.give_up(f"a picture differs from Pillow's by {apart} of 255")
        self.counts.add(os.getpid(), 1, apart > 0, 1)
        return own


def difference(torch: ModuleType, ours: Any, theirs: Any) -> int:
    """The most by which a byte of two pictures of one size differs."""
    both = [torch.frombuffer(bytearray(one.tobytes()), dtype=torch.uint8).int() for one in (ours, theirs)]
    return int((both[0] - both[1]).abs().max())


def _is_usual(picture: Any, size: Any, resample: Any) -> bool:
    known = picture.mode in _MODES and resample in _FILTERS
    if not known or not isinstance(size, (tuple, list)) or len(size) != 2:
        return False
    if any(type(number) is not int or number <= 0 for number in (*size, *picture.size)):
        return False
    pixels: int = max(size[0] * size[1], picture.size[0] * picture.size[1])
    return pixels <= LARGEST and bool(tuple(size) != picture.size)


def resizes(dataset: object) -> bool:
    """Whether the data set, or one that it wraps, holds a transform that resizes, by its name."""
    try:
        return any(_names_resizing(value) for part in chain(dataset) for value in _held_by(part))
    except Exception:  # of the script's own objects
        return False


def _held_by(part: object) -> list[object]:
    return list(vars(part).values()) if hasattr(part, "__dict__") else []


def _names_resizing(value: Any, depth: int = 3) -> bool:
    if "Resize" in type(value).__name__:
        return True
    several = getattr(value, "transforms", None)
    inner = several if isinstance(several, (list, tuple)) else [getattr(value, "transform", None)]
    return depth > 0 and any(one is not None and _names_resizing(one, depth - 1) for one in inner)
