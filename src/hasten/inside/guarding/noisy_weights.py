"""Weights with noise, as if rounded to a lower precision: once per pass, the same for all samples. So it does
not average out over a batch like noise on each sample's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from ..internals.modules import own_parameters

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_LOOKED_UP = ("Embedding", "EmbeddingBag")  # rows are looked up, not multiplied


@dataclass(frozen=True)
class _Swapped:
    """A weight in a module's ``parameters``, under ``name``. ``version`` and ``address`` are those of
    ``noisy`` when it was put there.
    """

    parameters: dict[str, Tensor | None]
    name: str
    weight: Tensor
    noisy: Tensor
    noise: Tensor
    version: int
    address: int

    def put_back(self) -> None:
        """Unless the script has replaced it. A change that the script made in place is kept."""
        if self.parameters.get(self.name) is not self.noisy:
            return
        if (self.noisy._version, self.noisy.data_ptr()) != (self.version, self.address):
            mine = self.noisy.detach()
            self.weight.data = mine - self.noise if mine.shape == self.noise.shape else mine
        self.parameters[self.name] = self.weight


class NoisyWeights:
    """Adds noise to the matrices and kernels of all modules of ``root``, until ``put_back``. Gradients reach
    the script's own parameters, as through a sum, and so does what hooks keep as a parameter's attributes.
    Weights that a module also keeps outside of its parameters
    (recurrent ones), or that another module uses, are left alone.

    ``noise``: what to add to a tensor; None for nothing.
    """

    def __init__(self, torch: ModuleType, root: Module, noise: Callable[[Tensor], Tensor | None]) -> None:
        self._swapped: list[_Swapped] = []
        made: dict[int, tuple[Tensor, Tensor | None]] = {}  # by weight, which several modules may share
        for parameters, name, weight in _weights(torch, root):
            if id(weight) not in made:
                added = noise(weight)
                made[id(weight)] = (weight if added is None else _with_noise(weight, added), added)
            noisy, added = made[id(weight)]
            if added is not None:
                self._swapped.append(
                    _Swapped(parameters, name, weight, noisy, added, noisy._version, noisy.data_ptr())
                )
                parameters[name] = noisy

    def put_back(self) -> None:
        while self._swapped:
            self._swapped.pop().put_back()


def _with_noise(weight: Tensor, noise: Tensor) -> Tensor:
    noisy = weight + noise
    noisy.__dict__ = weight.__dict__
    return noisy


def _weights(torch: ModuleType, root: Module) -> Iterator[tuple[dict[str, Tensor | None], str, Tensor]]:
    kinds = tuple(getattr(torch.nn, name) for name in _LOOKED_UP)
    lazy = torch.nn.parameter.is_lazy
    for module in list(root.modules()):
        parameters = own_parameters(module)
        if isinstance(module, kinds) or not isinstance(parameters, dict):  # TorchScript's is not a dict
            continue
        for name, weight in list(parameters.items()):
            if weight is not None and not lazy(weight) and weight.dim() > 1 and weight.is_floating_point():
                yield parameters, name, weight
