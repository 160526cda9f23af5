"""Does a model compute the same of a call without its padding? Asked of the model itself, in its training.

The model is called on copies of what it was given, whole and cut, with dropout off and in its parameters' own
precision; also with the shortest of its sequences alone, cut to the last column that this has. Both are
differentiated with the same random cotangents, which are zero where nothing is left of a sequence. What it
returns must agree within rounding, measured by noise on its weights as large as rounding is; and gradients
must, but for units that rounding turns. Nothing of this is left behind: RNG states, buffers and
attributes of its modules are as they were, and ``.grad`` is never written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...guarding.noisy_weights import NoisyWeights
from ...internals.modules import batch_norm_kind, count_hooks, has_gradient_hook, plain_call
from ...observing.padding import rows_of
from ...random_state import rng_states, set_rng_states
from ...seams import Args, Kwargs
from ...structures import map_tensors, tensors_of
from .apart import apart, apart_together
from .harmless_calls import attributes_put_back, graphs_of, harmless
from .kept_values import Kept, kept_by, which_differs
from .padded_calls import Cuts, Found, Kinds, Restored, dims_to_restore, kinds_of, narrowed, of_shortest

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch import device as Device
    from torch.nn import Module

_ROUNDING = {"float64": 2.0**-49, "float32": 2.0**-20, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_LOWERED = {"tf32": 2.0**-10, "bf16": 2.0**-7}  # if float32 products are computed in this precision
_TIMES = 8.0  # times what noise on the weights changes, which outputs may differ by
_MOST = 0.01  # if noise changes more than this, nothing can be said
_TURNED = 0.01  # of a gradient: a unit may turn under the least rounding


@dataclass(frozen=True)
class Rounding:
    """How far a model's outputs, and its gradient, may differ because of rounding; relative."""

    returned: float
    gradient: float


@dataclass(frozen=True)
class Agreement:
    """``why_not``: why the call must not be cut, "" if it may be. ``off``: the largest relative difference of
    the outputs; ``rounding``: how far they may differ, None if that was not measured; ``kinds``: of the
    output's tensors.
    """

    why_not: str = ""
    restored: Restored = frozenset()
    off: float = 0.0
    rounding: Rounding | None = None
    kinds: Kinds = ()


@dataclass(frozen=True)
class _Pass:
    outputs: list[Tensor]
    inputs: list[Tensor]  # those that are differentiated
    kept: Kept  # by its modules, beside the outputs
    attributes: list[dict[str, Any]]  # of each module, after it


def rehearse(
    torch: ModuleType,
    root: Module,
    args: Args,
    kwargs: Kwargs,
    found: Found,
    seed: int,
    rounding: Rounding | None = None,
) -> Agreement:
    """Compare the call with and without padding. ``rounding``: if it was measured before. Never raises."""
    if any(count_hooks(module)[0] for module in root.modules()):
        return Agreement("the script has a hook on a module's outputs, which would be narrower")
    if any(map(has_gradient_hook, root.parameters())) or any(count_hooks(m)[2] for m in root.modules()):
        return Agreement("the script has a hook on a gradient, which comparing would call")
    states = rng_states(torch)
    try:
        with harmless(torch, root):
            return _Rehearsal(torch, root, (args, kwargs), found, seed).agreement(rounding)
    except Exception as error:
        return Agreement(f"without its padding a call fails with {type(error).__name__}: {_line(error)}")
    finally:
        set_rng_states(torch, states)


class _Rehearsal:
    def __init__(
        self, torch: ModuleType, root: Module, call: tuple[Args, Kwargs], found: Found, seed: int
    ) -> None:
        self._torch, self._root, self._call = torch, root, call
        self._found = found
        self._seed = seed
        self._rng = rng_states(torch)
        self._generators: dict[str, Generator] = {}

    def agreement(self, rounding: Rounding | None) -> Agreement:
        whole, cut = self._passed({}), self._passed(self._found.cuts)
        restored = dims_to_restore(whole.outputs, cut.outputs, self._found)
        if restored is None:
            return Agreement("without its padding the model returns something of another shape")
        if self._torch.is_grad_enabled() and not all(whole.outputs[n].requires_grad for n, _, _ in restored):
            return Agreement(
                "the model returns a value for each position that gets no gradient, such as a mask"
            )
        kept = [self._kept(tensor, restored, n) for n, tensor in enumerate(whole.outputs)]
        off = max(map(apart, cut.outputs, kept), default=0.0)
        cotangents = [self._cotangent(tensor) for tensor in cut.outputs]
        wide = [
            self._widened(c, tensor) for c, tensor in zip(cotangents, whole.outputs, strict=True)
        ]  # zero where the cut call returns nothing
        gradients = self._gradients(whole, wide)
        if any(gradient is not None and gradient.is_sparse for gradient in gradients):
            return Agreement("gradients are sparse, and fewer rows would be updated without padding")
        turned = apart_together(self._gradients(cut, cotangents), gradients)
        kinds = kinds_of(cut.outputs)
        rounding = rounding or self._rounding(whole, wide, gradients)
        if name := self._keeps(whole, cut, rounding):
            return Agreement(f"{name}, which the model keeps beside its output, is another without padding")
        del cut
        shortest = self._shortest() if off <= rounding.returned else 0.0
        why_not = ""
        if off > rounding.returned:
            why_not = f"what the model returns depends on padding: it differs by {off:.1e} of its size"
        elif shortest > rounding.returned:
            why_not = f"what the model returns of its shortest sequence depends on padding: by {shortest:.1e}"
        elif turned > rounding.gradient:
            why_not = f"the model's gradient depends on padding: it differs by {turned:.1e} of its size"
        return Agreement(why_not, restored, max(off, shortest), rounding, kinds)

    def _keeps(self, whole: _Pass, cut: _Pass, rounding: Rounding) -> str:
        """What the model keeps and the script may read, if it differs; "" if nothing does. What has grown to
        the widest call seen, as tables of positions do, stays as it is in the calls after that.
        """
        if not which_differs(whole.kept, cut.kept, rounding.returned):
            return ""
        with self._torch.no_grad(), attributes_put_back(self._root):
            for module, own in zip(self._root.modules(), whole.attributes, strict=True):
                vars(module).update(own)
            whole, cut = self._passed({}), self._passed(self._found.cuts)
            return which_differs(whole.kept, cut.kept, rounding.returned)

    def _rounding(
        self, whole: _Pass, cotangents: Sequence[Tensor], gradients: Sequence[Tensor | None]
    ) -> Rounding:
        """Measured by noise on the weights."""
        least = rounding_of(self._torch, self._root)
        with self._noisy(least):
            noisy = self._passed({})
            pairs = zip(noisy.outputs, whole.outputs, strict=True)
            moved = max((apart(a, b) for a, b in pairs if b.is_floating_point()), default=0.0)
            bent = apart_together(self._gradients(noisy, cotangents), gradients)
        returned = min(_MOST, _TIMES * max(least, moved))
        return Rounding(returned, max(_TURNED, min(10 * _TURNED, _TIMES * bent)))

    def _shortest(self) -> float:
        """The difference for the shortest sequence alone. With batch norm, which cannot use samples that are
        all alike, for the shorter half.
        """
        normed = any(isinstance(m, batch_norm_kind(self._torch)) for m in self._root.modules())
        many = max(1, rows_of(tensors_of(self._torch, self._call)) // 2) if normed else 1
        with self._torch.no_grad():
            self._call, self._found = of_shortest(self._torch, self._call, self._found, many)
            whole, cut = self._passed({}), self._passed(self._found.cuts)
        restored = dims_to_restore(whole.outputs, cut.outputs, self._found)
        if restored is None:
            return math.inf
        kept = [self._kept(tensor, restored, n) for n, tensor in enumerate(whole.outputs)]
        return max(map(apart, cut.outputs, kept), default=0.0)

    def _passed(self, cuts: Cuts) -> _Pass:
        """The model on copies of the call's tensors, from the same RNG states each time."""
        set_rng_states(self._torch, self._rng)
        numbers, inputs, copies = count(), list[Any](), list[tuple[Any, Any]]()

        def copied(tensor: Tensor) -> Tensor:
            own = tensor.detach().clone()
            copies.append((own, tensor))
            if tensor.requires_grad:
                inputs.append(own.requires_grad_())
            where = cuts.get(next(numbers), ())
            for dim, width in where:
                own = own.narrow(dim, 0, width)
            return own.contiguous() if where else own

        args, kwargs = map_tensors(self._torch, self._call, copied)
        with attributes_put_back(self._root):
            before = graphs_of(self._root)
            output = plain_call(self._root)(*args, **kwargs)
            if not cuts and any(was_written(self._torch, own, given) for own, given in copies):
                raise WritesIntoInput("the model writes into what it is given")
            known = {id(tensor) for _, tensor in before}
            new = next((name for name, t in graphs_of(self._root) if id(t) not in known), "")
            if new:
                raise KeepsLoss(f"{new} may be a term of a loss, which the model keeps and does not return")
            attributes = [dict(vars(module)) for module in self._root.modules()]
            kept = kept_by(self._torch, self._root)
            return _Pass(tensors_of(self._torch, output), inputs, kept, attributes)

    def _kept(self, tensor: Tensor, restored: Restored, number: int) -> Tensor:
        """The part of a tensor of the whole call's output that the cut call returns, too."""
        for dim, kept, _ in narrowed(restored, number, self._found):
            tensor = tensor.narrow(dim, 0, kept)
        return tensor

    def _cotangent(self, tensor: Tensor) -> Tensor:
        drawn: Tensor = self._torch.randn(
            tensor.shape, generator=self._generator(tensor.device), device=tensor.device
        )
        return drawn.to(tensor.dtype) if tensor.requires_grad else drawn

    def _widened(self, cotangent: Tensor, like: Tensor) -> Tensor:
        wide = cotangent.new_zeros(like.shape)
        place = wide
        for dim, length in enumerate(cotangent.shape):
            place = place.narrow(dim, 0, length)
        place.copy_(cotangent)
        return wide

    def _gradients(self, done: _Pass, cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        pairs = [(o, c) for o, c in zip(done.outputs, cotangents, strict=True) if o.requires_grad]
        wanted = [p for p in self._root.parameters() if p.requires_grad] + done.inputs
        if not pairs or not wanted:
            return []
        if any(output.is_complex() for output, _ in pairs):
            outputs, given = zip(*pairs, strict=True)
            return list(self._torch.autograd.grad(outputs, wanted, given, allow_unused=True))
        # torch imports sympy, for half a second, where it is given gradients: a sum has the same
        whole = sum((output * cotangent).sum() for output, cotangent in pairs)
        return list(self._torch.autograd.grad(whole, wanted, allow_unused=True))

    @contextmanager
    def _noisy(self, relative: float) -> Iterator[None]:
        def noise(weight: Tensor) -> Tensor:
            drawn = self._torch.randn(
                weight.shape, generator=self._generator(weight.device), device=weight.device
            )
            changed: Tensor = weight.detach() * drawn.to(weight.dtype) * relative
            return changed

        weights = NoisyWeights(self._torch, self._root, noise)
        try:
            yield
        finally:
            weights.put_back()

    def _generator(self, device: Device) -> Generator:
        key = str(device)
        if key not in self._generators:
            self._generators[key] = self._torch.Generator(device).manual_seed(self._seed)
        return self._generators[key]


class KeepsLoss(Exception):
    """A model computes something that it does not return."""


class WritesIntoInput(Exception):
    """A model writes into its input, which the script may use later: on copies, that would be lost."""


def was_written(torch: ModuleType, own: Tensor, given: Tensor) -> bool:
    """Whether a copy of ``given`` was written into; tensors of inference mode do not count that."""
    return not bool(torch.equal(own, given)) if own.is_inference() else own._version != 0


def rounding_of(torch: ModuleType, root: Module) -> float:
    """The relative rounding error of a layer's output: sums of hundreds of terms in a different order."""
    dtypes = {str(p.dtype).removeprefix("torch.") for p in root.parameters()}
    found = max((_ROUNDING[name] for name in dtypes if name in _ROUNDING), default=_ROUNDING["float32"])
    backends = torch.backends
    products = (backends.mkldnn.matmul.fp32_precision, backends.cuda.matmul.fp32_precision)
    return max(found, *(_LOWERED.get(flag, 0.0) for flag in products))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
