"""A forward pass under autocast, for the techniques of lower precision."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager, ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ....records.facts import Facts
from ...internals.modules import has_hooks, own_parameters
from ...living import Living
from ...seams import Args, Call, Kwargs
from ...structures import Structure, map_tensors, tensors_of
from ...training import Training
from ..base import NO_MODULE
from .kept_tensors import KeptTensors
from .lowered_arrays import allow_arrays, need_no_arrays

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as DType
    from torch.nn import Module


_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


def refuse_bfloat16(facts: Facts) -> list[str]:
    """Why autocast to bfloat16 cannot help or work here."""
    lacks = "this CPU has no bfloat16 instructions (avx512_bf16, amx_bf16): emulated, they are slower"
    return refuse_autocast(facts, _BFLOAT16_FLAGS, lacks)


def refuse_autocast(facts: Facts, flags: Set[str], lacks: str) -> list[str]:
    """Why autocast cannot help or work here; ``lacks`` if it is a CPU with none of ``flags``."""
    reasons = [lacks] if facts.on_cpu and not flags & set(facts.machine.cpu_flags) else []
    if not facts.observation.roots:
        reasons.append(NO_MODULE)
    if any(dtype != "float32" for root in facts.observation.roots for dtype in root.dtypes):
        reasons.append("parameters are not all float32")
    if "autocast" in facts.observation.uses:
        reasons.append("the script already uses autocast")
    return reasons


def our_autocast(torch: ModuleType, device: str, reduced: DType) -> AbstractContextManager[object]:
    """Autocast that does not count as the script's own."""
    made: Any = torch.autocast(device, dtype=reduced)
    made._by_hasten = True
    return made  # type: ignore[no-any-return]


class LoweredForward:
    """Runs the forward passes of steps under autocast, unless the script uses autocast itself: those that
    record gradients, and a teacher's. Outputs come back in float32. ``calls`` counts them. ``lowered`` counts
    the tensors of type ``reduced`` that autograd saves in the first one of each module, until there are some:
    the proof that something was computed in it. Where activations are computed again in the backward pass
    (checkpointing), none are saved: then those that layers return in the second one; and if hooks cannot see
    what is saved, those that the module returns. A module that weighs losses computes nothing in it, and may
    come first.

    Float32 takes the place of what modules keep, too; a module that returns an object of a class that cannot
    be looked into is left alone.
    """

    _training: Training  # that it is installed in

    def __init__(self, torch: ModuleType, reduced: DType) -> None:
        self._torch = torch
        self._reduced = reduced
        self.calls = 0
        self.lowered = 0
        self.left_alone: dict[str, None] = {}  # why some modules are
        self._watched: Living[int] = Living()  # passes
        self._alone: Living[None] = Living()
        self._kept_tensors = KeptTensors(torch, reduced)

    def install(self, training: Training, name: str) -> None:
        self._training = training
        training.forward_wrappers[name] = self
        training.after_updates[name] = self._stepped
        if self._reduced == self._torch.bfloat16:
            allow_arrays(training, self._reduced, name)

    def remove(self, training: Training, name: str) -> None:
        need_no_arrays(training, name)
        training.forward_wrappers.pop(name, None)
        training.after_updates.pop(name, None)

    def __call__(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        torch = self._torch
        device = next(root.parameters()).device.type
        of_step = torch.is_grad_enabled() or self._training.teaches(root)
        if not of_step or torch.is_autocast_enabled(device) or _is_looked_into(root) or root in self._alone:
            return call(*args, **kwargs)
        looked_at = self._kept_tensors.before(root)
        with ExitStack() as stack:
            unseen = not self.lowered and not self._watch(stack, root)
            stack.enter_context(our_autocast(torch, device, self._reduced))
            output = call(*args, **kwargs)
        if unseen:
            self.lowered += self._count(output)
        self.calls += 1
        self._kept_tensors.after(root, looked_at)
        if looked_at:
            self._leave_alone(root, self._kept_tensors.opaque(root, output))
        return in_float32(torch, output, self._reduced)

    def _stepped(self) -> None:
        """Within a pass, autocast would go on with copies of weights that an optimizer has changed."""
        self._torch.clear_autocast_cache()

    def _leave_alone(self, root: Module, why: str) -> None:
        if why:
            self.left_alone[why] = None
            self._alone.put(root, None)
            self.calls = max(0, self.calls - self._kept_tensors.passes_of(root))

    def _watch(self, stack: ExitStack, root: Module) -> bool:
        """What autograd saves of this pass; of the next one, what layers return. False within torch.func's
        transforms, which do not allow it.
        """
        before = self._watched.get(root) or 0
        if before > 1:
            return True
        if before == 0:
            hooks = self._torch.autograd.graph.saved_tensors_hooks(self._kept, lambda tensor: tensor)
            try:
                stack.enter_context(hooks)
            except RuntimeError:
                return False
        else:
            for layer in filter(own_parameters, root.modules()):
                stack.callback(layer.register_forward_hook(self._returned).remove)
        self._watched.put(root, before + 1)
        return True

    def _returned(self, layer: Module, given: object, output: object) -> None:
        self.lowered += self._count(output)

    def _count(self, output: object) -> int:
        return sum(tensor.dtype == self._reduced for tensor in tensors_of(self._torch, output))

    def _kept(self, tensor: Tensor) -> Tensor:
        self.lowered += tensor.dtype == self._reduced
        return tensor


def _is_looked_into(root: Module) -> bool:
    """Whether a pass in eval mode is made to see what is inside, as for a Grad-CAM: hooks get the script's
    own types.
    """
    return not root.training and any(map(has_hooks, root.modules()))


def in_float32(torch: ModuleType, output: Structure, reduced: DType) -> Structure:
    """``output`` with float32 instead of ``reduced``, in containers too."""
    return map_tensors(torch, output, lambda tensor: tensor.float() if tensor.dtype == reduced else tensor)
