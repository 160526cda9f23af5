"""Whether making samples draws random numbers, and whether the script's code meets errors in it: such a
sample may differ the next time.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..internals.loaders import as_worker
from ..random_state import (
    another_seed,
    fingerprint,
    rng_states,
    seed_generators,
    set_rng_states,
    state_of_generator,
)
from ..seams import Call, Seams
from .errors_met import errors_met
from .visible_state import generators_of


class Drawing:
    """Whether random numbers are drawn: from the RNG states of torch, Python and numpy and from
    ``generators`` that the dataset reaches; ``apart``, in a process of ours, also from generators seeded by
    the system. Other threads, which a worker uses to pass on its batches, do that for file names.
    """

    def __init__(self, torch: ModuleType, dataset: object, apart: bool = False) -> None:
        self._torch = torch
        self.generators = generators_of(dataset)
        self._asked = 0  # how often the thread that makes samples asked the system for a seed
        if apart:
            self._watch_the_system()
        self.begin()

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._before = self._now()

    @property
    def drew(self) -> bool:
        """Whether random numbers were drawn since ``begin``."""
        return self._now() != self._before

    def _now(self) -> object:
        return fingerprint(self._torch), [state_of_generator(one) for one in self.generators], self._asked

    @property
    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread

    # ---- the system
    def _watch_the_system(self) -> None:
        seams = Seams()
        seams.replace(os, "urandom", self._counting)
        seams.replace(random.Random, "seed", self._counting_no_seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            seams.replace(numpy.random, "default_rng", self._counting_no_seed)

    def _counting(self, original: Call) -> Call:
        def asked(*args: object, **kwargs: object) -> object:
            self._asked += self._is_here
            return original(*args, **kwargs)

        return asked

    def _counting_no_seed(self, original: Call) -> Call:
        def asked(*args: Any, **kwargs: Any) -> object:
            given = [one for one in (*args, *kwargs.values()) if not isinstance(one, random.Random)]
            self._asked += self._is_here and all(one is None for one in given)
            return original(*args, **kwargs)

        return asked


@contextmanager
def as_another_process(torch: ModuleType, dataset: object, number: int) -> Iterator[None]:
    """Within the block, samples are made like in a loader's worker, with different seeds."""
    before, seed = rng_states(torch), another_seed(number)
    seed_generators(torch, seed)
    try:
        with as_worker(dataset, seed):
            yield
    finally:
        set_rng_states(torch, before)


@dataclass(frozen=True)
class Seen:
    """``error``: the kind of an error that the script's code met; "" for none."""

    drew: bool
    error: str


class MakingWatch:
    """Watches from ``begin`` to ``end``, repeatedly; ``apart`` as for ``Drawing``."""

    def __init__(self, torch: ModuleType, dataset: object, apart: bool = False) -> None:
        self._drawing = Drawing(torch, dataset, apart)
        self._errors = errors_met()

    def begin(self) -> None:
        self._drawing.begin()
        self._errors.begin()

    def end(self) -> Seen:
        error = self._errors.end()
        return Seen(self._drawing.drew, error)

    def close(self) -> None:
        self._errors.close()
