"""The RNG states of a rank: those that all ranks share, which draw the order of samples, and its own."""

from __future__ import annotations

import pickle
import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from ..random_state import State, another_seed, comparable, rng_states, seed_generators, set_rng_states
from ..seams import Call, Seams

if TYPE_CHECKING:
    from torch import Tensor

_APART = 0x7F4A7C15  # between the seeds of two ranks: more than scripts count up
_MOST = 2**63
_GENERATORS = {"torch": ("torch", "devices"), "random": ("random",), "numpy": ("numpy",)}  # by seeding module


_NONE: frozenset[str] = frozenset()
_ALL = frozenset(generator for names in _GENERATORS.values() for generator in names)
_LAYERS = frozenset(_GENERATORS["torch"])  # what layers draw from


class RngStates:
    """All ranks draw the same until ``begin``; from then on torch's are each rank's own, since layers
    draw from them for each sample. Python's and numpy's stay the same in all ranks: what a script draws from
    them is a choice for all samples.

    Rank 0's own states continue the script's, so it draws what one process would. Draws within ``shared``
    are always the same in all ranks; those within ``own`` are the rank's own even before ``begin``.
    """

    def __init__(self, torch: ModuleType, rank: int) -> None:
        self._torch = torch
        self.rank = rank
        self._aside: State | None = None  # the inactive state of each generator
        self._owned = _NONE  # generators whose own state is active
        self._seeding = False
        self.begun = False

    def begin(self) -> None:
        """Training begins: layers now draw from the rank's own RNG states, except within ``shared``."""
        self.begun = True
        self._own(self._owned | _LAYERS)

    def take_role(self, rank: int) -> None:
        """From now on this process's own states are that rank's: derived from those so far, for all but
        rank 0.
        """
        if rank and rank != self.rank and self._aside is not None:
            with self.own():
                state = self._torch.random.default_generator.get_state()
                self._seed(another_seed(rank, zlib.crc32(bytes(state.tolist()))))
        self.rank = rank

    @contextmanager
    def shared(self) -> Iterator[None]:
        """For code that draws the order of samples."""
        with self._in_force(_NONE):
            yield

    @contextmanager
    def own(self) -> Iterator[None]:
        """For code that makes this rank's samples."""
        with self._in_force(_ALL):
            yield

    @property
    def layers_alone(self) -> bool:
        """Whether a draw now may be either kind: training has begun, and no sample is being made."""
        return self.begun and self._owned == _LAYERS

    @contextmanager
    def _in_force(self, owned: frozenset[str]) -> Iterator[None]:
        before = self._owned
        self._own(owned)
        try:
            yield
        finally:
            self._own(before)

    def _own(self, wanted: frozenset[str]) -> None:
        changing = self._owned ^ wanted
        if not changing:
            return
        now = rng_states(self._torch)
        if self._aside is None:
            self._aside = self._beginning(now)
        set_rng_states(self._torch, {**now, **{generator: self._aside[generator] for generator in changing}})
        self._aside |= {generator: now[generator] for generator in changing}
        self._owned = wanted

    def _beginning(self, now: State) -> State:
        """The first of this rank's own states."""
        if not self.rank:
            return dict(now)
        self._seed(seed_of(self.rank, self._torch.initial_seed()))
        return rng_states(self._torch)

    def _seed(self, seed: int) -> None:
        """Not as the script seeds."""
        self._seeding = True
        seed_generators(self._torch, seed)
        self._seeding = False

    # ---- a script that saves a state and restores it
    def kept(self) -> Tensor:
        """torch's RNG state for a script that reads it: the one that all ranks share."""
        with self.shared():
            state: Tensor = self._torch.random.default_generator.get_state()
            return state

    def take_up(self, state: Tensor) -> None:
        """Set both of torch's RNG states to ``state``, the rank's own to one derived from it."""
        with self.shared():
            self._torch.random.default_generator.set_state(state)
        if self._owned >= _LAYERS:
            generator = self._torch.random.default_generator
            generator.set_state(state)
            if self.rank:
                generator.manual_seed(another_seed(self.rank, zlib.crc32(bytes(state.tolist()))))

    # ---- a script that seeds again
    def watch_seeding(self, seams: Seams) -> None:
        """A script that seeds in every epoch means the order of samples, too: both states are seeded, as the
        only one is in one process.
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

    def _seeded(self, kind: str, original: Call) -> Call:
        def seed(*args: object, **kwargs: object) -> object:
            result = original(*args, **kwargs)
            given = args[0] if args else next(iter(kwargs.values()), None)
            if self._seeding or not self.begun or self._aside is None or not isinstance(given, int):
                return result
            now = rng_states(self._torch)
            if self.rank:
                apart = seed_of(self.rank, given)
                original(apart % 2**32 if kind == "numpy" else apart)
            mine = rng_states(self._torch)
            if set(_GENERATORS[kind]) <= self._owned:
                self._aside |= {generator: now[generator] for generator in _GENERATORS[kind]}
            else:
                self._aside |= {generator: mine[generator] for generator in _GENERATORS[kind]}
                set_rng_states(self._torch, now)
            return result

        return seed

    def shared_state(self) -> State:
        """RNG states that all ranks share."""
        with self.shared():
            return rng_states(self._torch)

    def share_all(self) -> None:
        """From now on all draws are the same in all ranks."""
        self._own(_NONE)
        self.begun = False

    def shared_digests(self) -> list[tuple[str, int]]:
        """A digest of each shared state, by its generator. Devices are left out: they draw no order of
        samples, and may have been initialised at different times.
        """
        state = rng_states(self._torch)
        if self._aside is not None:
            state |= {generator: self._aside[generator] for generator in self._owned}
        return [
            (name, zlib.crc32(pickle.dumps(one))) for name, one in comparable(state) if name in _GENERATORS
        ]


def seed_of(rank: int, seed: int) -> int:
    """A rank's own seed. Ranks differ in the lower half, the only one that torch's CPU generator takes."""
    return (seed + rank * _APART) % _MOST
