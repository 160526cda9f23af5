"""Random numbers that a script itself draws with torch: per sample of its batch, or once for all of them.

A draw with as many rows as this rank has samples is from its own stream. From a generator of the script's,
which is in the same state in all ranks, it is made for the whole batch and cut, as in one process. Any other
draw is a choice for the whole batch (a coin toss, new weights, noise on weights), and must be the same in all
ranks. What layers draw inside (dropout) does not go through these functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from ..random_state import DRAWING_IN_PLACE
from ..seams import Args, Call, Kwargs, Seams
from .aligned import AlignedDraws
from .losses import HERE, TORCH
from .rng_states import RngStates
from .slicing import Slice

_OF_A_TENSOR = ("rand_like", "randn_like", "randint_like", "bernoulli", "multinomial")


class Drawing:
    """``latest``: the slice of the current batch, None without a batch."""

    def __init__(self, rng: RngStates, latest: Callable[[], Slice | None]) -> None:
        self._rng, self._latest = rng, latest

    def install(self, seams: Seams) -> None:
        for name, rows in (
            *((name, _of_size) for name in ("rand", "randn")),
            *((name, _of_tensor) for name in _OF_A_TENSOR),
            ("randint", _of_size_within),
            ("normal", _of_size_within),
            ("randperm", _of_tensor),
        ):
            seams.replace(torch, name, self._around(rows))
        for name in DRAWING_IN_PLACE:
            seams.replace(torch.Tensor, name, self._around(_of_tensor))
        for owner in (torch, torch.random):
            seams.replace(owner, "get_rng_state", self._around_get)
            seams.replace(owner, "set_rng_state", self._around_set)

    def _around(self, rows: Callable[[Args, Kwargs], int]) -> Callable[[Call], Call]:
        def around(original: Call) -> Call:
            def draw(*args: object, **kwargs: object) -> object:
                if not self._rng.layers_alone:
                    return original(*args, **kwargs)
                latest = self._latest()
                if latest is not None and rows(args, kwargs) == latest.stop - latest.start:
                    if kwargs.get("generator") is None:
                        return original(*args, **kwargs)
                    with AlignedDraws(self._latest):
                        return original(*args, **kwargs)
                with self._rng.shared():
                    return original(*args, **kwargs)

            return draw

        return around

    def _around_get(self, original: Call) -> Call:
        def get_rng_state() -> object:
            return self._rng.kept() if self._rng.begun and _asked_by_script() else original()

        return get_rng_state

    def _around_set(self, original: Call) -> Call:
        def set_rng_state(new_state: torch.Tensor) -> None:
            if self._rng.begun and _asked_by_script():
                self._rng.take_up(new_state)
            else:
                original(new_state)

        return set_rng_state


def _asked_by_script() -> bool:
    """Whether the script draws, and not torch recomputing part of a forward pass, or ourselves."""
    return not sys._getframe(2).f_code.co_filename.startswith((HERE, TORCH))


def _first(value: object) -> int:
    if torch.is_tensor(value):
        return int(value.shape[0]) if value.dim() else 0
    if isinstance(value, (list, tuple)):
        return int(value[0]) if value else 0
    return int(value) if isinstance(value, int) else -1


def _of_size(args: Args, kwargs: Kwargs) -> int:
    return _first(args[0] if args else kwargs.get("size", ()))


def _of_tensor(args: Args, kwargs: Kwargs) -> int:
    """The rows of a parameter are not samples, whatever their number."""
    if args and isinstance(args[0], torch.nn.Parameter):
        return -1
    return _first(args[0] if args else next(iter(kwargs.values()), ()))


def _of_size_within(args: Args, kwargs: Kwargs) -> int:
    """The size, or for ``normal`` a tensor, comes after numbers."""
    given = [*args, *kwargs.values()]
    return _first(next((one for one in given if torch.is_tensor(one) or isinstance(one, (list, tuple))), ()))
