"""Warnings name the line that they would name without us: frames of ours are not counted on the way there."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

from .package import PACKAGE
from .seams import Call, Seams

_OURS = PACKAGE + os.sep


def count_the_scripts_frames(seams: Seams) -> None:
    """Code that warns says how many calls further up its caller is (``stacklevel``). Without this, our
    wrappers around torch's functions would be counted as such calls.
    """

    def around(original: Call) -> Call:
        def warn(
            message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any
        ) -> object:
            if "skip_file_prefixes" in more:  # Python 3.12 and later
                more["skip_file_prefixes"] = (*more["skip_file_prefixes"], _OURS)
            else:
                stacklevel = 1 + _with_ours(stacklevel, sys._getframe(1))
            return original(message, category, stacklevel, source, **more)

        return warn

    seams.replace(warnings, "warn", around)


def _with_ours(level: int, frame: FrameType | None) -> int:
    """``level``, counted from ``frame``, with our own frames on the way in addition."""
    found, left = 0, level
    while frame is not None:
        found += 1
        left -= not frame.f_code.co_filename.startswith(_OURS)
        if left <= 0:
            return max(found, level)
        frame = frame.f_back
    return level
