"""What must be equal in all ranks at the same step, as named numbers: for a tensor, the sum of its bits."""

from __future__ import annotations

import weakref
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from ..internals.modules import norm_kind
from ..seams import Call
from ..training import Training
from .rng_states import RngStates

Numbers = list[tuple[str, float]]
SAMPLE = "a sample of the parameters"
RATES = "learning rates"  # in each step
LIGHT = (
    "settings of the optimizers",
    "flags",
    "the scale of losses",
    SAMPLE,
    "RNG states",
)
FULL = ("parameters", "the optimizers' state", "buffers")
KINDS = (RATES, *LIGHT, *FULL)
_SAMPLED = 8  # elements of each parameter that are looked at between two full comparisons
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
_LONG = 8  # bytes of an int64
_MOST = 2**52 - 1  # exact as a float; odd, so that every bit of a sum changes the remainder


class Watched:
    """``parameters`` returns all that is trained. ``apart``: running statistics are each rank's own until an
    evaluation averages them.
    """

    def __init__(
        self,
        training: Training,
        rng: RngStates,
        parameters: Callable[[], Sequence[torch.Tensor]],
        apart: bool,
    ) -> None:
        self._training, self._rng = training, rng
        self._parameters, self._apart = parameters, apart
        self._names: tuple[object, dict[int, str]] = (None, {})
        self._sampled: tuple[object, list[list[torch.Tensor]]] = (None, [])
        self._scalers: weakref.WeakSet[torch.amp.GradScaler] = weakref.WeakSet()
        training.seams.replace(torch.amp.GradScaler, "scale", self._around_scale)
        self._find: dict[str, Callable[[], Numbers]] = dict(
            zip(
                KINDS,
                (
                    self._rates, self._settings, self._flags, self._scales, self._sample, self._randomness,
                    lambda: self._sums(self.tensors("parameters")),
                    lambda: self._state_numbers() + self._sums(self.tensors("the optimizers' state")),
                    lambda: self._sums(self.tensors("buffers")),
                ),
                strict=True,
            )
        )  # fmt: skip

    def numbers(self, kind: str) -> Numbers:
        """The numbers of a kind, each with the name of what it belongs to."""
        return self._find[kind]()

    def learning_rates(self) -> list[float]:
        """As ``numbers`` gives them, but without names: they are read in every step."""
        optimizers = self._training.optimizers
        return [float(g["lr"]) for one in optimizers for g in one.param_groups if "lr" in g]

    def tensors(self, kind: str) -> list[tuple[str, torch.Tensor]]:
        """The tensors whose numbers a kind has, with their names; [] for kinds without tensors."""
        if kind in ("parameters", SAMPLE):
            return [(f"the parameter {self._name(p)}", p) for p in self._parameters()]
        if kind == "the optimizers' state":
            return [
                (f"{key} of {name}", value) for name, key, value in self._states() if torch.is_tensor(value)
            ]
        return list(self._buffers()) if kind == "buffers" else []

    # ---- kinds
    def _around_scale(self, original: Call) -> Call:
        def scale(scaler: torch.amp.GradScaler, outputs: object) -> object:
            self._scalers.add(scaler)
            return original(scaler, outputs)

        return scale

    def _groups(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for optimizer in self._training.optimizers:
            for number, group in enumerate(optimizer.param_groups):
                where = f" of group {number}" if len(optimizer.param_groups) > 1 else ""
                yield f"{type(optimizer).__name__}{where}", group

    def _rates(self) -> Numbers:
        return [(f"the learning rate of {name}", float(g["lr"])) for name, g in self._groups() if "lr" in g]

    def _settings(self) -> Numbers:
        found: Numbers = []
        for name, group in self._groups():
            for key, value in group.items():
                several = value if isinstance(value, (tuple, list)) and key != "params" else (value,)
                found += [(f"{key} of {name}", float(v)) for v in several if isinstance(v, (int, float))]
            found.append((f"the number of parameters of {name}", len(group["params"])))
        return found

    def _flags(self) -> Numbers:
        found: Numbers = []
        for root in self._training.roots:
            for name, module in root.named_modules():
                found.append(
                    (f"the train/eval flag of {name or type(root).__name__}", float(module.training))
                )
        found += [(f"requires_grad of {self._name(p)}", float(p.requires_grad)) for p in self._parameters()]
        return found

    def _scales(self) -> Numbers:
        scales = sorted(float(scaler.get_scale()) for scaler in self._scalers)
        return [("the scale of the loss", scale) for scale in scales]

    def _sample(self) -> Numbers:
        parameters = self._parameters()
        key = [(id(p), p.data_ptr()) for p in parameters]
        if key != self._sampled[0]:
            flat = [p.detach().reshape(-1) if p.is_contiguous() else p.detach() for p in parameters]
            views = [f[:: max(1, len(f) // _SAMPLED)] for f in flat if f.dim() == 1 and len(f)]
            by_kind: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
            for view in views:
                by_kind.setdefault((view.dtype, view.device), []).append(view)
            self._sampled = (key, list(by_kind.values()))
        return [("parameters", number_of(int(bits_of(torch.cat(views))))) for views in self._sampled[1]]

    def _randomness(self) -> Numbers:
        return [(f"{name}'s RNG state", digest) for name, digest in self._rng.shared_digests()]

    def _states(self) -> Iterator[tuple[str, str, Any]]:
        for optimizer in self._training.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    for key, value in optimizer.state.get(parameter, {}).items():
                        yield self._name(parameter), str(key), value

    def _state_numbers(self) -> Numbers:
        plain = (s for s in self._states() if isinstance(s[2], (int, float)))
        return [(f"{key} of {name}", float(value)) for name, key, value in plain]

    def _buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        for root in self._training.roots:
            for place, module in root.named_modules():
                own = self._apart and isinstance(module, norm_kind(torch))
                for name, buffer in module.named_buffers(recurse=False):
                    if not (own and name in ("running_mean", "running_var")):
                        yield f"the buffer {place}{'.' * bool(place)}{name}", buffer

    # ---- tensors
    def _sums(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> Numbers:
        by_device: dict[torch.device, list[int]] = {}
        for number, (_, tensor) in enumerate(tensors):
            by_device.setdefault(tensor.device, []).append(number)
        sums = [0] * len(tensors)
        for numbers in by_device.values():
            found = torch.stack([bits_of(tensors[number][1]) for number in numbers]).tolist()
            for number, bits in zip(numbers, found, strict=True):
                sums[number] = bits
        return [(name, number_of(bits)) for (name, _), bits in zip(tensors, sums, strict=True)]

    def _name(self, parameter: torch.Tensor) -> str:
        roots = self._training.roots
        key = [id(root) for root in roots], len(self._parameters())
        if key != self._names[0]:
            names = {id(p): f"number {place}" for place, p in enumerate(self._parameters())}
            names |= {id(p): name for root in roots for name, p in root.named_parameters()}
            self._names = (key, names)
        return self._names[1].get(id(parameter), "of an optimizer")


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor's bits, taken as integers: a tensor of one element on the same device."""
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.coalesce().values() if plain.layout == torch.sparse_coo else plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    flat, size = torch.flatten(plain), plain.element_size()  # no method: channels_last would give way to it
    if flat.storage_offset() * size % _LONG:
        flat = flat.clone()
    whole = len(flat) - len(flat) % (_LONG // size)
    found = flat[:whole].view(torch.int64).sum()  # eight bytes at a time: twelve times as fast as four
    if whole < len(flat):
        found = found + flat[whole:].view(_WORDS[size]).sum(dtype=torch.int64)
    return found


def parameter_bits(root: torch.nn.Module) -> list[int]:
    """Of each parameter, in integers, as in them nothing is rounded; not of those that a lazy module makes in
    its first pass.
    """
    lazy = torch.nn.parameter.is_lazy
    return [int(bits_of(parameter)) for parameter in root.parameters() if not lazy(parameter)]


def number_of(bits: int) -> float:
    """A sum of bits as a float that can hold it exactly."""
    return float(bits % _MOST)


def fingerprint(values: Iterable[float]) -> int:
    """A checksum of these numbers, of 32 bits."""
    return zlib.crc32(array("d", values).tobytes())
