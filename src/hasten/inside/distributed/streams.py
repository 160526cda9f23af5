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

from ..sampling_proof import seed_streams
from ..seams import Seams

_APART = 0x7F4A7C15  # between the seeds of two ranks: far from any that a script counts up
_MOST = 2**63


class Streams:
    """All ranks draw the same until ``begin``; from then on each draws its own augmentations and dropout.

    Rank 0's own numbers go on where the script's are, so it draws what one process would. Whatever is drawn
    within ``shared`` stays the same in all ranks for ever; what is drawn within ``own`` is the rank's even
    before ``begin``.
    """

    def __init__(self, torch: Any, rank: int) -> None:
        self._torch = torch
        self._rank = rank
        self._aside: dict[str, Any] | None = None  # the state of the stream that is not in force
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
        now = self._state()
        if self._aside is not None:
            self._set(self._aside)
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
            self._aside[kind] = self._state()[kind]
            if self._rank:
                apart = seed_of(self._rank, given)
                original(apart % 2**32 if kind == "numpy" else apart)
            return result

        return seed

    def shared_digests(self) -> list[tuple[str, int]]:
        """Of each stream that all ranks share, by its name."""
        state = self._aside if self._owning and self._aside is not None else self._state()
        return [(name, digest_of(one)) for name, one in state.items() if one is not None]

    # ---- states
    def _state(self) -> dict[str, Any]:
        numpy = sys.modules.get("numpy")
        return {
            "torch": self._torch.get_rng_state(),
            "random": random.getstate(),
            "numpy": numpy.random.get_state() if numpy is not None else None,
        }

    def _set(self, state: dict[str, Any]) -> None:
        self._torch.set_rng_state(state["torch"])
        random.setstate(state["random"])
        numpy = sys.modules.get("numpy")
        if numpy is not None and state["numpy"] is not None:
            numpy.random.set_state(state["numpy"])


def digest_of(state: Any) -> int:
    """Of a generator's state, as ``_state`` gives it."""
    if hasattr(state, "element_size"):
        return zlib.crc32(bytes(state.untyped_storage()))
    return zlib.crc32(pickle.dumps(state))


def seed_of(rank: int, seed: int) -> int:
    """A rank's own seed. Ranks differ in the lower half, the only one that torch's CPU generator takes."""
    return (seed + rank * _APART) % _MOST
