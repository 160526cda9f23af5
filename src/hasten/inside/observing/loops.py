"""The loops around a training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Loop:
    """It goes round ``turns`` times, of which ``done`` are over, unless it is left ``early``. ``elsewhere``:
    a turn may have other steps, too. ``anew``: what counts its turns begins with it. ``sure``: it will go
    round as often the next time.
    """

    turns: int
    done: int
    early: bool = False
    elsewhere: bool = False
    anew: bool = field(default=True, compare=False)
    sure: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class Limited:
    """It goes over the batches of a loader, and is left as soon as the script has counted to ``limit`` in all
    passes together; it is at ``counted``. What it counts is not known. ``within``: loops of the same function
    around it; in others around that, the count begins anew.
    """

    limit: int
    counted: int
    within: int


LOADER, CUT, OTHER = "loader", "cut", "other"
Around = Sequence[Loop | Limited | str]
"""Loops around a step, outer ones first. LOADER: over the batches of a loader; CUT: it may be left early;
OTHER: it cannot be read.
"""
