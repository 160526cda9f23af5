"""The seams that see what a run spends on saving files, on output and on garbage collection."""

from __future__ import annotations

import builtins
import gc
import logging
import os
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from types import ModuleType
from typing import Any

from ..seams import Args, Call, Kwargs, Seams, when_it_comes
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
_FILE_AT = {"numpy": 0, "safetensors.torch": 1}  # which argument is the file that is written ...
_FILE_NAMES = ("f", "file", "filename")  # ... or what it is called


def watch_parts(training: Training, timeline: Timeline) -> None:
    """Report them to ``timeline``. Adds about two microseconds per call, one per garbage collection."""
    seams, torch = training.seams, training.torch
    around = partial(_around, seams, timeline, torch.compiler.is_compiling)
    seams.replace(torch, "save", partial(around, _SAVING, file_at=1))
    seams.replace(pickle, "dump", partial(around, _SAVING, file_at=1))
    seams.replace(builtins, "print", partial(around, _OUTPUT))
    seams.replace(logging.Logger, "isEnabledFor", partial(_asked, seams, timeline))
    seams.replace(logging.Logger, "handle", partial(around, _OUTPUT, logged=True))
    for module, (names, part) in _LATER.items():
        file_at = _FILE_AT.get(module)
        made = partial(around, part, file_at=file_at)
        when_it_comes(seams, module, partial(_replace_all, seams, names, made))
    collected = _collections(timeline)
    gc.callbacks.append(collected)
    seams.on_undo(partial(_forget, collected))


def _around(
    seams: Seams,
    timeline: Timeline,
    is_compiling: Callable[[], bool],
    part: str,
    original: Call,
    file_at: int | None = None,
    logged: bool = False,
) -> Call:
    """``file_at``: which argument is the file that is written; ``logged``: it begins by ``timeline.logs``."""
    enter = seams.watching(partial(timeline.enter, logged=logged))

    @seams.watching
    def leave(entered: tuple[float, float, str], args: Args, kwargs: Kwargs) -> None:
        folder = _folder_of(args, kwargs, file_at) if file_at is not None else ""
        timeline.leave(part, entered, timeline.place(), folder)

    @wraps(original)
    def timed(*args: object, **kwargs: object) -> object:
        entered = None if is_compiling() else enter(part)
        if entered is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            leave(entered, args, kwargs)

    return timed


def _asked(seams: Seams, timeline: Timeline, original: Call) -> Call:
    """Logging asks it before it makes a record, which takes most of the time of a line that is logged: it
    looks for who called. A seam around all of it would be found there.
    """
    logs = seams.watching(timeline.logs)

    @wraps(original)
    def enabled(*args: object, **kwargs: object) -> object:
        answer = original(*args, **kwargs)
        if answer:
            logs()
        return answer

    return enabled


def _folder_of(args: Args, kwargs: Kwargs, file_at: int) -> str:
    """The folder of the file that such a call writes, by path or open; "" if it has no name."""
    named = [kwargs[name] for name in _FILE_NAMES if name in kwargs]
    file: Any = (*args[file_at : file_at + 1], *named, None)[0]
    with suppress(Exception):  # whatever an object of the script's says, or there is no working directory
        path = file if isinstance(file, os.PathLike) else getattr(file, "name", file)
        if isinstance(path, (str, bytes, os.PathLike)):
            return os.path.dirname(os.path.abspath(os.fsdecode(path)))
    return ""


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
