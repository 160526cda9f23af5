"""2-d convolutions of patches, or over whole lines of their input, computed in simpler ways, on a CPU.

What it does: a kernel that moves by its own size (the patches of a vision transformer) becomes one matrix
product; one that spans the width or the height of its input (words of a text CNN, electrodes of a network
for EEG) a convolution over the other axis. Mathematics and weights stay the same, only rounding differs. The
first call of each shape computes two samples both ways and compares them.

When it helps: oneDNN's kernels for 2-d convolutions work on blocks of 16 channels, and inputs like these have
1 or 3. In bfloat16 a text CNN's convolutions can take a hundred times as long as the same products. When it
hurts: inputs of many channels, which are left to torch, and kernels that oneDNN computes well.

A compiled model is left as it is.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import script_as
from ..seams import Call
from ..training import Training
from .base import Technique
from .support.multiplied_convolutions import Convolution, Layouts, laid_out

_NONE = "no convolution of few channels has a kernel that moves by its size or spans its input"
_ARGUMENTS = 7  # of conv2d
_COMPILE = "compile"  # the technique
_KNOWN = "products"  # in Training.kept


class MatmulConvolutions(Technique):
    name = "matmul_convolutions"
    summary = "convolutions of patches as matrix products, over whole lines as 1-d convolutions, on a CPU"
    layer = "application"
    risk = "exact"
    scope = "live"
    devices = frozenset({"cpu"})
    restarts = True

    def __init__(self) -> None:
        self._layouts: Layouts | None = None
        self._calls = self._others = 0
        self._undo: list[Callable[[], None]] = []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        reasons = []
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        if not any(root.products for root in seen.roots):
            reasons.append(_NONE)
        if "compile" in seen.uses or any(root.compiled for root in seen.roots):
            reasons.append("the script compiles its model")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        self._layouts = layouts = training.kept.setdefault(_KNOWN, Layouts(torch))
        is_compiling = torch.compiler.is_compiling

        def around(original: Call) -> Call:
            def conv2d(*args: Any, **kwargs: Any) -> object:
                if is_compiling():  # before anything else, which would be compiled
                    return original(*args, **kwargs)
                called = Convolution.of(torch, *args, **kwargs) if len(args) <= _ARGUMENTS else None
                layout = None if called is None else layouts.of(called, original)
                if called is None or layout is None:
                    self._others += 1
                    return original(*args, **kwargs)
                self._calls += 1
                return laid_out(called.multiplied(torch), layout)

            script_as(torch, conv2d, original)
            return conv2d

        for module in (torch, torch.nn.functional):
            self._undo.append(training.seams.replace(module, "conv2d", around))

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the convolutions computed more simply. It has no effect that counts if one of them differed
        from torch's. A compiled model has code of its own, and nothing is left to do.
        """
        evidence = f"{self._calls} convolutions computed more simply, {self._others} by torch"
        if self._layouts is not None and self._layouts.differing:
            shape = self._layouts.differing[0]
            return Proof(self.name, False, f"{evidence}; it gave other numbers for {shape}")
        if not self._calls and _COMPILE in training.forward_wrappers:
            return Proof(self.name, True, "the model is compiled, and has code of its own")
        if not self._calls:
            evidence = _NONE
        return Proof(self.name, self._calls > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# patches: a convolution whose stride is its kernel's size; now (batch, patches, channels)\n"
            "patches = F.unfold(x, conv.kernel_size, stride=conv.stride).transpose(1, 2)\n"
            "x = F.linear(patches, conv.weight.flatten(1), conv.bias)\n"
            "# words of a text: Conv2d(1, channels, (k, width)); the result has no last axis\n"
            "x = F.conv1d(x.squeeze(1).transpose(1, 2), conv.weight.squeeze(1).transpose(1, 2), conv.bias)"
        )
