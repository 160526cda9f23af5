"""Max pooling of 2x2 numbers by a kernel of hasten's own, on a CPU.

What it does: calls of ``max_pool2d`` whose windows do not overlap, as ``MaxPool2d(2)`` has them, take one
pass over the pictures, which keeps a byte for each output; backward is one pass, too. torch keeps eight
bytes, fills the gradient with zeros and then adds to it number by number. Results are the same to the last
bit: the first call of each shape is compared with torch's, forward and backward.

When it helps: small convolutional networks, where pooling takes a good part of a step: textbook networks for
MNIST and CIFAR-10, VGG. It needs pictures stored channels last, so it goes with channels_last. When it hurts:
no case known. It does nothing where windows overlap, as in ResNet, and on a GPU.

It needs a C++ compiler, and torch's threads to be OpenMP's of GNU. Compiling takes a second, once a machine;
the result is kept in ~/.cache/hasten.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import script_as
from ..observing.uses import DIFFERENTIATES_GRADIENTS
from ..process.native_code import CannotCompile
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique
from .support.max_pooling import Pooling, fits, separate_windows

if TYPE_CHECKING:
    from torch import Tensor

_COMPILE = "compile"  # the technique
_KNOWN = "pools"  # in Training.kept: the kernels of this process, and which shapes were compared


class FastPooling(Technique):
    name = "fast_pooling"
    summary = "max pooling of 2x2 numbers in one pass each way, on a CPU"
    layer = "application"
    risk = "exact"
    scope = "live"
    devices = frozenset({"cpu"})
    restarts = True

    def __init__(self) -> None:
        self._pooling: Pooling | None = None
        self._checked: dict[tuple[Any, ...], bool] = {}  # by type and shape, whether both gave the same
        self._calls = self._others = 0
        self._undo: list[Callable[[], None]] = []

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.cxx else ["there is no C++ compiler: install g++ or set CXX"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        if not any(root.convolutions for root in seen.roots):
            reasons.append("the model has no 2-d convolutions")
        elif seen.pools_apart is False:
            reasons.append("no pooling of 2x2 numbers that do not overlap was seen in the steps")
        if "compile" in seen.uses or any(root.compiled for root in seen.roots):
            reasons.append("the script compiles its model")
        if DIFFERENTIATES_GRADIENTS in seen.uses:
            reasons.append(f"the script differentiates gradients ({DIFFERENTIATES_GRADIENTS})")
        return reasons

    @classmethod
    def together_with(cls, settings: Settings, facts: Facts) -> dict[str, Settings]:
        """Pictures that are not stored channels last are left to torch."""
        return {"channels_last": {}}

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if _KNOWN not in training.kept:
            try:
                training.kept[_KNOWN] = Pooling(torch), self._checked
            except CannotCompile as why:
                raise NotApplicable(str(why)) from None
        self._pooling, self._checked = pooling, _ = training.kept[_KNOWN]
        is_compiling = torch.compiler.is_compiling

        def around(original: Call) -> Call:
            def max_pool2d(input: Any, *args: Any, **kwargs: Any) -> object:
                if is_compiling():  # before anything else, which would be compiled
                    return original(input, *args, **kwargs)
                ours = separate_windows(*args, **kwargs) and fits(torch, input)
                if not ours or training.differentiates_gradients or not self._is_right(input):
                    self._others += 1
                    return original(input, *args, **kwargs)
                self._calls += 1
                found: object = pooling.pool(input)
                return found

            script_as(torch, max_pool2d, original)
            return max_pool2d

        self._undo.append(training.seams.replace(torch, "max_pool2d", around))

    def _is_right(self, pictures: Tensor) -> bool:
        """Whether the kernel gives what torch gives, forward and backward; looked at once for each shape."""
        assert self._pooling is not None
        key = pictures.dtype, tuple(pictures.shape)
        if key not in self._checked:
            self._checked[key] = self._pooling.agrees(pictures.detach())
        return self._checked[key]

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the calls that the kernel took; it counts for nothing if it once differed from torch's. A
        compiled model pools by kernels of its own, and nothing is left to do.
        """
        differing = [shape for (_, shape), same in self._checked.items() if not same]
        evidence = f"{self._calls} poolings by the kernel, {self._others} by torch"
        if differing:
            return Proof(self.name, False, f"{evidence}; it gave other numbers for {differing[0]}")
        if not self._calls and _COMPILE in training.forward_wrappers:
            return Proof(self.name, True, "the model is compiled, and pools by kernels of its own")
        if not self._calls:
            evidence = "no pooling of 2x2 numbers channels last that do not overlap"
        else:
            evidence += f"; the same to the last bit for {len(self._checked)} shapes that were compared"
        return Proof(self.name, self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# torch has no switch for it. Without windows that are pooled, a convolution with stride=2\n"
            "# makes pictures smaller, which trains another model."
        )
