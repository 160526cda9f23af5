"""What the doctor looks at and finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TorchBuild:
    """``version`` is "" where there is no torch; ``cuda`` and ``rocm`` are "" where it is built without."""

    version: str
    cuda: str = ""
    rocm: str = ""


@dataclass(frozen=True)
class HardCoded:
    """A line with a device written into it, and the same line for any device."""

    file: str
    line: int
    written: str
    instead: str


@dataclass(frozen=True)
class Finding:
    """``hinders``: training is slower for it, fails, or cannot be tuned; otherwise it is good to know."""

    text: str
    advice: str = ""
    hinders: bool = False
