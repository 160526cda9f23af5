"""Random streams of a rank: one that all ranks share, for what draws the order of samples, and its own."""

from __future__ import annotations

import pickle
import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..random_state import State, comparable, seed_streams, set_streams, state_of_streams
from ..seams import Seams

_APART = 0x7F4A7C15  # between the seeds of two ranks: far from any that a script counts up
_MOST = 2**63
_STREAMS = {"torch": ("torch", "devices"), "random": ("random",), "numpy": ("numpy",)}  # by who seeds them


class Streams:
    """All ranks draw the same until ``begin``; from then on each draws its own augmentations and dropout.

    Rank 0's own numbers go on where the script's are, so it draws what one process would. Whatever is drawn
    within ``shared`` stays the same in all ranks for ever; what is drawn within ``own`` is the rank's even
    before ``begin``.
    """

    def __init__(self, torch: Any, rank: int) -> None:
        self._torch = torch
        self._rank = rank
        self._aside: State | None = None  # the state of the stream that is not in force
        self._owning = False
        self._seeding = False

    def begin(self) -> None:
        """Training begins: from here on everything draws from the rank's own stream, where not within
        ``shared``.
        """
        if not self._owning:
            self._swap()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """What draws the order of samples goes in here."""
        with self._in_force(False):
            yield

    @contextmanager
    def own(self) -> Iterator[None]:
        """What makes this rank's samples goes in here."""
        with self._in_force(True):
            yield

    @contextmanager
    def _in_force(self, own: bool) -> Iterator[None]:
        if self._owning == own:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        now = state_of_streams(self._torch)
        if self._aside is not None:
            set_streams(self._torch, self._aside)
        elif self._rank:
            self._seeding = True
            seed_streams(self._torch, seed_of(self._rank, self._torch.initial_seed()))
            self._seeding = False
        self._aside = now
        self._owning = not self._owning

    # ---- a script that seeds anew
    def watch_seeding(self, seams: Seams) -> None:
        """A script that seeds every epoch means the order, too: both streams begin there, as in one process
        the only one would.
        """
        owners = [
            (self._torch, "manual_seed", "torch"),
            (self._torch.random, "manual_seed", "torch"),
            (random, "seed", "random"),
        ]
        if "numpy" in sys.modules:
            owners.append((sys.modules["numpy"].random, "seed", "numpy"))
        for owner, name, kind in owners:
            seams.replace(owner, name, partial(self._seeded, kind))

    def _seeded(self, kind: str, original: Any) -> Any:
        def seed(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            given = args[0] if args else next(iter(kwargs.values()), None)
            if self._seeding or not self._owning or self._aside is None or not isinstance(given, int):
                return result
            now = state_of_streams(self._torch)
            self._aside |= {stream: now[stream] for stream in _STREAMS[kind]}
            if self._rank:
                apart = seed_of(self._rank, given)
                original(apart % 2**32 if kind == "numpy" else apart)
            return result

        return seed

    def shared_digests(self) -> list[tuple[str, int]]:
        """Of each stream that all ranks share, by its name. Devices draw no order of samples, and may have
        begun in each rank by itself.
        """
        state = self._aside if self._owning and self._aside is not None else state_of_streams(self._torch)
        return [(name, zlib.crc32(pickle.dumps(one))) for name, one in comparable(state) if name in _STREAMS]


def seed_of(rank: int, seed: int) -> int:
    """A rank's own seed. Ranks differ in the lower half, the only one that torch's CPU generator takes."""
    return (seed + rank * _APART) % _MOST
