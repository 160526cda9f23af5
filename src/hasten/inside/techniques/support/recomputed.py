"""A forward pass whose graph is built only if a gradient comes back.

It runs without recording, inside one node of autograd's graph. Its outputs require gradients as usual.
If a gradient comes, the pass is run again from the same tensors and RNG states, recorded this time,
and the gradient goes on through it. Tensors written to meanwhile raise autograd's own error.

Source: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-autograd
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import is_view
from ...random_state import State, rng_states, set_rng_states
from ...structures import map_tensors, tensors_of

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[[], object]


class NeedsGraph(Exception):
    """A pass without a graph failed."""


class Recomputed:
    """``passes`` counts runs without a graph; ``again`` those that had to run a second time."""

    def __init__(self, torch: ModuleType) -> None:
        self.passes = 0
        self.again = 0
        self.torch = torch
        self._node = _node_of(torch)

    def __call__(
        self, run: Run, leaves: list[Tensor], on_gradient: Callable[[], None], again: Run | None = None
    ) -> object:
        """What ``run`` returns. ``leaves``: the tensors that its gradients go to, each once; ``again``: how
        to run it a second time. Raises NeedsGraph, with the RNG states restored, if ``run`` fails.
        """
        torch = self.torch
        states, lowered = rng_states(torch), _autocast(torch, leaves)

        def record() -> list[Tensor]:
            self.again += 1
            on_gradient()
            with torch.enable_grad(), lowered():
                return _differentiable(torch, self._as_then(states, again or run))

        kept: list[object] = []

        def first() -> tuple[Tensor, ...]:
            kept.append(run())
            return tuple(t.detach() if is_view(t) else t for t in _differentiable(torch, kept[0]))

        try:
            made = self._node.apply(first, record, *leaves)
        except Exception as error:
            set_rng_states(torch, states)
            raise NeedsGraph(f"{type(error).__name__}: {error}") from error
        finally:
            torch.clear_autocast_cache()  # its lowered weights have no graph
        self.passes += 1
        following: Iterator[Any] = iter(made)
        found: dict[int, Any] = {id(t): next(following) for t in _differentiable(torch, kept[0])}
        return map_tensors(torch, kept[0], lambda tensor: found.get(id(tensor), tensor))

    def _as_then(self, states: State, run: Run) -> object:
        """``run()`` with the former RNG states; afterwards the current ones are restored."""
        now = rng_states(self.torch)
        set_rng_states(self.torch, states)
        try:
            return run()
        finally:
            set_rng_states(self.torch, now)


def _differentiable(torch: ModuleType, output: object) -> list[Tensor]:
    """The tensors in ``output`` that can have gradients, each once."""
    every = {id(t): t for t in tensors_of(torch, output) if t.is_floating_point() or t.is_complex()}
    return list(every.values())


def _autocast(torch: ModuleType, leaves: list[Tensor]) -> Callable[[], AbstractContextManager[object]]:
    """A factory for the autocast in force now, on or off."""
    device = leaves[0].device.type if leaves else "cpu"
    if not torch.amp.is_autocast_available(device):
        return nullcontext
    how = {
        "dtype": torch.get_autocast_dtype(device),
        "enabled": torch.is_autocast_enabled(device),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }

    def make() -> AbstractContextManager[object]:
        made: Any = torch.autocast(device, **how)
        made._by_hasten = True
        return made  # type: ignore[no-any-return]

    return make


def _node_of(torch: ModuleType) -> Any:
    class HastenRecomputed(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, first: Any, record: Any, *leaves: Any) -> Any:
            ctx.record = record
            ctx.save_for_backward(*leaves)
            ctx.set_materialize_grads(False)
            return first()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            leaves, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
            goes_on = torch.is_grad_enabled()  # create_graph
            outputs = ctx.record()
            pairs = [
                (output, gradient)
                for output, gradient in zip(outputs, gradients, strict=True)
                if gradient is not None and output.requires_grad
            ]
            wanted = [leaf for leaf, wants in zip(leaves, needed, strict=True) if wants]
            if not pairs:
                return None, None, *(None for _ in leaves)
            found = iter(
                torch.autograd.grad(
                    [output for output, _ in pairs],
                    wanted,
                    [gradient for _, gradient in pairs],
                    allow_unused=True,
                    create_graph=goes_on,
                )
            )
            return None, None, *(next(found) if wants else None for wants in needed)

    return HastenRecomputed
