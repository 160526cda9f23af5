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


@dataclass(frozen=True)
class Distribution:
    """How a script is trained by several processes, as far as reading it tells.

    ``kind``: "ranks" where it is made to be one of several that a launcher starts, "spawns" where it starts
    them itself, "" where it knows of no other process. ``sign`` is the line that says so, ``data_parallel``
    one that wraps a model in DataParallel; each as "train.py:12: what stands there", "" where there is none.
    ``backends``: those that it names. ``reads``: the variables of launchers that it reads.
    """

    kind: str = ""
    sign: str = ""
    backends: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    data_parallel: str = ""
