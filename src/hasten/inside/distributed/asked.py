"""The inputs of one call of a model, for ranks to compare and to slice."""

from __future__ import annotations

import torch

from ..internals.dispatch import tree_flatten, tree_unflatten
from ..seams import Args, Kwargs
from .fingerprint import StateDigest, digest_of, value_of


class Asked:
    """``digest``: equal in all ranks that call a model in the same state with the same inputs; 0 if that
    is unknown. ``kind``: equal for calls that differ only in their rows and the number of them.
    ``whole``: the number of rows. ``trained``: the model may have changed since its ``state`` was read.
    """

    def __init__(
        self, state: StateDigest, root: torch.nn.Module, trained: bool, args: Args, kwargs: Kwargs
    ) -> None:
        self.args, self.kwargs = args, kwargs
        self._leaves, self._form = tree_flatten((args, kwargs))
        self.whole = _length(self._leaves)
        self._cut = [is_of(leaf, self.whole) for leaf in self._leaves]
        self.kind = self.digest = 0
        try:
            values = [value_of(leaf) for leaf in self._leaves]
            own = [str(self._form), root.training, torch.is_autocast_enabled("cpu"), state.of(root, trained)]
        except Exception:  # Incomparable, or an unknown kind of tensor
            return
        self.kind = digest_of([own[0], *self._kinds(values)])
        self.digest = digest_of([*own, *values])

    def _kinds(self, values: list[tuple[object, ...]]) -> list[object]:
        kinds: list[object] = []
        for leaf, value, cut in zip(self._leaves, values, self._cut, strict=True):
            if torch.is_tensor(leaf):
                shape = ("rows", *leaf.shape[1:]) if cut else tuple(leaf.shape)
                kinds.append((*value[:1], shape, value[2]))
            else:
                kinds.append(value)
        return kinds

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self._leaves if torch.is_tensor(leaf)]

    def cut(self, start: int, stop: int) -> tuple[Args, Kwargs]:
        """Arguments and keyword arguments with only these rows; copies, which may be changed."""
        mine = [
            leaf[start:stop].clone() if cut else leaf.clone() if torch.is_tensor(leaf) else leaf
            for leaf, cut in zip(self._leaves, self._cut, strict=True)
        ]
        args, kwargs = tree_unflatten(mine, self._form)
        return args, kwargs


def tensors_among(*values: object) -> list[torch.Tensor]:
    """The tensors in nested containers."""
    return [leaf for leaf in tree_flatten(values)[0] if torch.is_tensor(leaf)]


def is_of(leaf: object, whole: int) -> bool:
    """Whether it has a row for each of ``whole`` samples."""
    return torch.is_tensor(leaf) and leaf.dim() > 0 and leaf.shape[0] == whole


def _length(leaves: list[object]) -> int:
    """Samples in a batch: the length of the first tensor."""
    return next((int(leaf.shape[0]) for leaf in leaves if torch.is_tensor(leaf) and leaf.dim()), 0)
