"""Saves of models are counted, so that what a save takes is taken for no step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING

from ..seams import Call, Seams, when_it_comes

if TYPE_CHECKING:
    from ..training import Training

_SAFETENSORS = "safetensors.torch"


def count_saves(training: Training, saved: Callable[[], None]) -> None:
    """``saved`` is called when one begins."""
    seams = training.seams
    around = partial(_around, seams.watching(saved))
    seams.replace(training.torch, "save", around)
    when_it_comes(seams, _SAFETENSORS, partial(_replace, seams, around))


def _replace(seams: Seams, around: Callable[[Call], Call], module: ModuleType) -> None:
    for name in ("save_file", "save_model"):
        if hasattr(module, name):
            seams.replace(module, name, around)


def _around(saved: Call, original: Call) -> Call:
    @wraps(original)
    def save(*args: object, **kwargs: object) -> object:
        saved()
        return original(*args, **kwargs)

    return save
