"""The seams that see what a run spends on saving files, on output and on Python's garbage."""

from __future__ import annotations

import builtins
import gc
import logging
import pickle
from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import ModuleType

from ..seams import Call, Seams, when_it_comes
from ..training import Training
from .timeline import Timeline, clock

_SAVING, _OUTPUT = "saving", "output"
_LATER = {  # module: (class or "", function), part
    "numpy": ((("", "save"), ("", "savez"), ("", "savez_compressed")), _SAVING),
    "safetensors.torch": ((("", "save_file"), ("", "save_model")), _SAVING),
    "tqdm.std": ((("tqdm", "refresh"),), _OUTPUT),
    "torch.utils.tensorboard.writer": (
        tuple(("SummaryWriter", name) for name in (
            "add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "flush",
        )),
        _OUTPUT,
    ),
}  # fmt: skip


def watch_parts(training: Training, timeline: Timeline) -> None:
    """Tell ``timeline`` of them. What is called costs about two microseconds more, a collection one."""
    seams, torch = training.seams, training.torch
    around = partial(_around, seams, timeline, torch.compiler.is_compiling)
    seams.replace(torch, "save", partial(around, _SAVING))
    seams.replace(pickle, "dump", partial(around, _SAVING))
    seams.replace(builtins, "print", partial(around, _OUTPUT))
    seams.replace(logging.Logger, "handle", partial(around, _OUTPUT))
    for module, (names, part) in _LATER.items():
        when_it_comes(seams, module, partial(_replace_all, seams, names, partial(around, part)))
    collected = _collections(timeline)
    gc.callbacks.append(collected)
    seams.on_undo(partial(_forget, collected))


def _around(
    seams: Seams, timeline: Timeline, is_compiling: Callable[[], bool], part: str, original: Call
) -> Call:
    enter = seams.watching(timeline.enter)

    @seams.watching
    def leave(entered: tuple[float, float, str]) -> None:
        timeline.leave(part, entered, timeline.place())

    @wraps(original)
    def timed(*args: object, **kwargs: object) -> object:
        entered = None if is_compiling() else enter(part)
        if entered is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            leave(entered)

    return timed


def _replace_all(
    seams: Seams, names: tuple[tuple[str, str], ...], make: Callable[[Call], Call], module: ModuleType
) -> None:
    for owner_name, name in names:
        owner = getattr(module, owner_name, None) if owner_name else module
        if owner is not None and hasattr(owner, name):
            seams.replace(owner, name, make)


def _collections(timeline: Timeline) -> Callable[[str, Mapping[str, int]], None]:
    began = 0.0

    def collected(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = clock()
        elif began:
            timeline.collected(clock() - began)

    return collected


def _forget(callback: Callable[[str, Mapping[str, int]], None]) -> None:
    if callback in gc.callbacks:
        gc.callbacks.remove(callback)
