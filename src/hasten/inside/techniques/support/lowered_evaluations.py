"""An evaluation's passes under autocast, compared with themselves in full precision.

Before the first pass of each model, it is computed twice on copies of its inputs: in full precision and
lowered. If the outputs differ by more than ``MOST``, the model is left alone. So it is if it draws random
numbers, changes a buffer or its inputs, keeps numbers of lower precision, or returns what cannot be compared.
After eight times as many passes it is compared again, because weights and data change. A comparison leaves
nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from ...internals.modules import has_hooks, holder_of, plain_call
from ...internals.other_functions import leaves
from ...living import Living
from ...observing.batches import tensors_in
from ...random_state import fingerprint, rng_states, set_rng_states
from ...seams import Args, Call, Kwargs
from ...structures import map_tensors, tensors_of
from .harmless_calls import harmless
from .lowering import in_float32, our_autocast
from .trimmed_rehearsal import was_written

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as DType
    from torch.nn import Module

# Relative: eight roundings of bfloat16, 2**-8 each. By as much the guard lets a gradient under bf16 depart
# in any case, since a pass rounds in each of its layers.
MOST = 8 * 2.0**-8
_AGAIN = 8  # times as many passes, then it is compared again
_FILLED = 1e4  # numbers this large are compared separately: as masks, they would hide the others
_PLAIN = (int, float, str, bytes, type(None))

Given = tuple[Args, Kwargs]


class LoweredEvaluations:
    """Lowers passes that record no gradients, with the model's modules in eval mode, unless the script uses
    autocast itself, or ``teaches`` says that a model's are part of steps. Outputs are float32 again.

    ``passes`` counts lowered passes, ``compared`` the comparisons; ``farthest``: the largest relative
    difference in any of them.
    """

    def __init__(
        self, torch: ModuleType, reduced: DType, teaches: Callable[[Module], bool] = lambda root: False
    ) -> None:
        self._torch = torch
        self._reduced = reduced
        self._teaches = teaches
        self._known: Living[_Known] = Living(self._gone)
        self._ended_lowered = False  # of models that are gone: whether one's passes were lowered to its end
        self._why_not_gone: dict[str, None] = {}  # of these: why some were left alone
        self.passes = 0
        self.compared = 0
        self.farthest = 0.0

    def __call__(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        given = args, kwargs
        if self._torch.is_grad_enabled() or not self._may_be_lowered(root, given):
            return call(*args, **kwargs)
        known = self._known.get(root)
        if known is None:
            self._known.put(root, known := _Known())
        if known.is_due():
            self._look(known, root, given)
        if known.why_not:
            return call(*args, **kwargs)
        with our_autocast(self._torch, _device_of(root), self._reduced):
            output = call(*args, **kwargs)
        known.why_not = _opaque(self._torch, output)
        if known.why_not:  # newly found
            return call(*args, **kwargs)
        known.passes += 1
        self.passes += 1
        return in_float32(self._torch, output, self._reduced)

    @property
    def in_effect(self) -> bool:
        """Whether a model's passes are lowered, and their outputs differ from full precision's."""
        lowered = self._ended_lowered or any(one.is_lowered for one in self._known.values())
        return self.farthest > 0.0 and lowered

    def why_not(self) -> list[str]:
        """Why models are left alone."""
        living = [one.why_not for one in self._known.values() if one.why_not]
        return list(dict.fromkeys([*self._why_not_gone, *living]))

    def _gone(self, known: _Known) -> None:
        """The script has dropped its model, as by returning from ``main()``: its passes still count."""
        self._ended_lowered = self._ended_lowered or known.is_lowered
        if known.why_not:
            self._why_not_gone[known.why_not] = None

    def departure(self, root: Module, args: Args, kwargs: Kwargs) -> float | None:
        """The relative difference that lowering makes to the outputs of this call in an evaluation; None if
        the model's evaluations stay in full precision.
        """
        if any(map(has_hooks, root.modules())) or _opaque(self._torch, (args, kwargs)):
            return None
        found = self._comparison(root, (args, kwargs))
        return None if found.why_not else found.departure

    def _may_be_lowered(self, root: Module, given: Given) -> bool:
        """A pass may write to objects that it gets, and hooks would see different numbers."""
        return not (
            self._torch.is_autocast_enabled(_device_of(root))
            or self._teaches(root)
            or any(part.training for part in holder_of(root).modules())
            or any(map(has_hooks, root.modules()))
            or _opaque(self._torch, given)
        )

    def _look(self, known: _Known, root: Module, given: Given) -> None:
        found = self._comparison(root, given)
        self.compared += 1
        known.looked(found)
        if not found.why_not:
            self.farthest = max(self.farthest, found.departure)

    def _comparison(self, root: Module, given: Given) -> _Comparison:
        torch = self._torch
        states = rng_states(torch)
        try:
            with torch.no_grad(), harmless(torch, root):
                root.eval()
                return self._both(root, given)
        except Exception as error:
            return _Comparison(f"a pass that is compared fails with {type(error).__name__}: {error}")
        finally:
            set_rng_states(torch, states)

    def _both(self, root: Module, given: Given) -> _Comparison:
        torch = self._torch
        buffers = {name: buffer.clone() for name, buffer in root.named_buffers()}
        states, own = fingerprint(torch), _copied(torch, given)
        full = plain_call(root)(*own[0], **own[1])
        if fingerprint(torch) != states:
            return _Comparison("the model draws random numbers in an evaluation")
        for name, buffer in root.named_buffers():
            if name not in buffers or not torch.equal(buffer, buffers[name]):
                return _Comparison(f"the model changes {name} in an evaluation")
        pairs = zip(tensors_of(torch, own), tensors_of(torch, given), strict=False)
        if any(was_written(torch, copy, tensor) for copy, tensor in pairs):
            return _Comparison("the model writes into what it is given")
        own = _copied(torch, given)
        with our_autocast(torch, _device_of(root), self._reduced):
            lowered = plain_call(root)(*own[0], **own[1])
        opaque, kept = _opaque(torch, full), next(self._kept_by(root), "")
        if opaque or kept:
            return _Comparison(opaque or f"the model keeps {kept} of a pass, in lower precision")
        return compare(torch, in_float32(torch, lowered, self._reduced), full)

    def _kept_by(self, root: Module) -> Iterator[str]:
        """Attributes that hold tensors of the lower precision: the script may read them."""
        for module in root.modules():
            for name, value in vars(module).items():
                if any(tensor.dtype == self._reduced for tensor in tensors_in(value)):
                    yield f"{type(module).__name__}.{name}"


@dataclass(frozen=True)
class _Comparison:
    """``departure``: the largest relative difference of a tensor; 0 if there is a ``why_not``."""

    why_not: str = ""
    departure: float = 0.0


class _Known:
    """What is known of one model."""

    def __init__(self) -> None:
        self.passes = 0  # lowered passes
        self.why_not = ""
        self._next = 0  # compare again after this many

    @property
    def is_lowered(self) -> bool:
        return bool(self.passes and not self.why_not)

    def is_due(self) -> bool:
        return not self.why_not and self.passes >= self._next

    def looked(self, found: _Comparison) -> None:
        self._next = _AGAIN * max(1, self.passes)
        self.why_not = found.why_not
        if not found.why_not and found.departure > MOST:
            self.why_not = (
                f"what the model returns departs by {found.departure:.1%}, and {MOST:.1%} is allowed"
            )


def compare(torch: ModuleType, ours: object, full: object) -> _Comparison:
    """What a model returned in the two precisions."""
    lowered, exact = tensors_of(torch, ours), tensors_of(torch, full)
    if [tensor.shape for tensor in lowered] != [tensor.shape for tensor in exact]:
        return _Comparison("what the model returns has another shape in lower precision")
    if not any(tensor.is_floating_point() and tensor.numel() for tensor in exact):
        return _Comparison("the model returns no floating-point numbers, and only these can be compared")
    departure = max(map(_departure, lowered, exact))
    if not math.isfinite(departure):
        return _Comparison("whole numbers that the model returns differ, or numbers became NaN or infinite")
    return _Comparison(departure=departure)


def _departure(ours: Tensor, full: Tensor) -> float:
    """Relative; infinite if they differ and are not measures, or if different entries are not numbers."""
    if not full.is_floating_point():
        return 0.0 if bool((ours == full).all()) else math.inf
    finite, ours, full = full.isfinite(), ours.float(), full.float()
    if not bool((ours.isfinite() == finite).all() and (ours == full)[~finite].all()):
        return math.inf
    filled = full.abs() >= _FILLED
    return max(_of_size(ours[part], full[part]) for part in (finite & filled, finite & ~filled))


def _of_size(ours: Tensor, full: Tensor) -> float:
    apart, size = float((ours - full).norm()), float(full.norm())
    return 0.0 if apart == 0.0 else apart / size if size else math.inf


def _copied(torch: ModuleType, given: Given) -> Given:
    return map_tensors(torch, given, lambda tensor: tensor.detach().clone())


def _opaque(torch: ModuleType, value: object) -> str:
    """Why tensors in it may be hidden; "" if they are not."""
    for part in leaves(torch, value):
        if not (torch.is_tensor(part) or isinstance(part, (*_PLAIN, dict)) or is_dataclass(part)):
            return f"the model is given, or returns, a {type(part).__name__}, which may hold tensors"
    return ""


def _device_of(root: Module) -> str:
    return next(root.parameters()).device.type
