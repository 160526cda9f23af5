"""Outputs of a model: whether they are rows of a batch, and whether computing them had side effects."""

from __future__ import annotations

import dataclasses

import torch

from ..internals.dispatch import tree_flatten
from ..internals.modules import own_buffers, own_parameters
from ..random_state import comparable, rng_states, set_rng_states
from ..samples.sampling_proof import state_of
from ..structures import tensors_of
from .asked import is_of
from .fingerprint import digest_of, is_plain

_SAME = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative to the largest output
_SAME_OTHERWISE = 2e-2  # bfloat16, float16


class Undisturbed:
    """Created before a call; reports afterwards whether it changed RNG states, its inputs (``tensors``), or
    ``root``, if one is given.
    """

    def __init__(self, root: torch.nn.Module | None, tensors: list[torch.Tensor]) -> None:
        self._rng = rng_states(torch)
        self._root, self._tensors = root, tensors
        self._before = self._state()

    @property
    def memory(self) -> set[int]:
        """The addresses of inputs, parameters and buffers."""
        held = [] if self._root is None else [*self._root.parameters(), *self._root.buffers()]
        return {_memory(tensor) for tensor in [*self._tensors, *held]}

    def drew(self) -> bool:
        """Whether random numbers were drawn."""
        return list(comparable(rng_states(torch))) != list(comparable(self._rng))

    def put_back(self) -> None:
        """Restore the RNG states."""
        set_rng_states(torch, self._rng)

    def holds(self) -> bool:
        """Whether the inputs and the modules' state are unchanged."""
        before = self._before
        return before is not None and before == self._state()

    def _state(self) -> object:
        """The state of its inputs and modules; None if unknown."""
        try:
            versions = [_version(tensor) for tensor in self._tensors]
            modules = () if self._root is None else self._root.modules()
            return versions, [_state_of(module) for module in modules]
        except Exception:  # raised by an attribute of one of the script's classes
            return None


def _state_of(module: torch.nn.Module) -> object:
    held = [*own_parameters(module).items(), *own_buffers(module).items()]
    own = {name: value for name, value in vars(module).items() if name not in _OF_TORCH}
    return [(name, _version(t)) for name, t in held], module.training, state_of(own, 3)


_OF_TORCH = frozenset(vars(torch.nn.Module()))


def _version(tensor: torch.Tensor | None) -> tuple[int, int] | None:
    return None if tensor is None else (id(tensor), 0 if tensor.is_inference() else tensor._version)


def is_made_of_rows(output: object, rows: int, memory: set[int]) -> bool:
    """Whether it consists only of new tensors with a row for each sample, which share no memory."""
    places = [_memory(tensor) for tensor in tensors_of(torch, output)] if form_of(output, rows) else []
    return bool(places) and len(set(places)) == len(places) and not memory & set(places)


def form_of(output: object, rows: int) -> int:
    """Equal for outputs of the same structure, all of whose tensors have a row for each sample; 0 for one
    that holds anything else, such as a number.
    """
    parts: list[object] = []

    def look(value: object) -> bool:
        leaves, form = tree_flatten(value)
        parts.append(str(form))
        return all(look_at(leaf) for leaf in leaves)

    def look_at(leaf: object) -> bool:
        if torch.is_tensor(leaf):
            parts.append((str(leaf.dtype), tuple(leaf.shape[1:]), leaf.device.type))
            return is_plain(leaf) and is_of(leaf, rows)
        kind = type(leaf)
        parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(leaf, dict):
            parts.append(list(map(str, leaf)))
            return all(look(held) for held in leaf.values())
        if dataclasses.is_dataclass(leaf):
            return all(look(getattr(leaf, field.name)) for field in dataclasses.fields(leaf))
        return leaf is None

    return digest_of(parts) if look(output) else 0


def is_same(found: object, expected: object) -> bool:
    """Whether they are equal up to rounding."""
    pairs = zip(tensors_of(torch, found), tensors_of(torch, expected), strict=True)
    return all(_is_close(a, b) for a, b in pairs)


def _is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    alike = (a == b) | (a.isnan() & b.isnan())
    usual = b[b.isfinite()].abs()
    largest = float(usual.max()) if usual.numel() else 0.0
    apart = torch.where(alike, 0.0, (a - b).abs())
    kind = b.real.dtype if b.is_complex() else b.dtype
    return not apart.numel() or float(apart.max()) <= _SAME.get(kind, _SAME_OTHERWISE) * largest


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
