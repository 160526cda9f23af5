"""What ``hasten doctor`` looks at and finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TorchBuild:
    """``version`` is "" without torch; ``cuda`` and ``rocm`` are "" if it is built without them."""

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
    """``hinders``: it makes training slower, fail, or impossible to tune; otherwise it is good to know."""

    text: str
    advice: str = ""
    hinders: bool = False


@dataclass(frozen=True)
class Distribution:
    """How a script trains in several processes, as far as reading it shows.

    ``kind``: "ranks" if it is made to be one of several that a launcher starts, "spawns" if it starts them
    itself, "" if it knows of no other process. ``sign`` is the line that says so, ``data_parallel`` one that
    wraps a model in DataParallel; each as "train.py:12: the line's text", or "". ``backends``: those it
    names. ``reads``: the launcher variables it reads.
    """

    kind: str = ""
    sign: str = ""
    backends: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    data_parallel: str = ""
