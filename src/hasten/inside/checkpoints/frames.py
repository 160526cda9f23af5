"""The frames that a script's names are in."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from ..package import PACKAGE

_RUNS_SCRIPTS = os.path.join(PACKAGE, "inside", "worker", "run_script.py")  # whose frames are around them
_STEPS = os.path.join("torch", "optim", "optimizer.py")
_OUR_REFERENCES = 3  # to a frame's names: its own, ours, and that of asking
_OPTIMIZED = 1  # CO_OPTIMIZED: the frame is a function's


def frames(frame: FrameType | None, torch_folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The names of the frames that are neither ours, torch's nor Python's, from the innermost one on."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _RUNS_SCRIPTS:
            return
        others = is_below(code.co_filename, torch_folder) or is_below(code.co_filename, PACKAGE)
        if code.co_flags & _OPTIMIZED and not (others or is_pythons(code)):
            yield code.co_name, code.co_filename, locals_of(frame)
        elif "out" in code.co_varnames and code.co_filename.endswith(_STEPS):
            yield (
                "step",
                code.co_filename,
                {"out": frame.f_locals.get("out")},
            )  # what a closure returned, on its way out
        frame = frame.f_back


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Before Python 3.13 the frame keeps a copy, and with it what the script has long dropped."""
    names = frame.f_locals
    found = dict(names)
    if type(names) is dict and sys.getrefcount(names) <= _OUR_REFERENCES:  # else the script asked for it
        names.clear()
    return found


def is_pythons(code: CodeType) -> bool:
    path = code.co_filename
    if path.startswith("<frozen"):
        return True
    return is_below(path, os.path.dirname(random.__file__)) and "-packages" not in path


def is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)
