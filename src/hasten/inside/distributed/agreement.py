"""Do the slices' gradients add up to one process's gradient, and with what weights?

The residual is how far the weighted sum is from one process's gradient. If it is large, a least-squares fit
of the weights shows why: a loss that divides by something other than the number of samples fits with other
weights, and a loss that depends on the batch as a whole fits with none.

In float32 the two differ by rounding, and by more if rounding switches a unit (ReLU, max pooling). Such noise
points in a random direction of many dimensions, so it hardly moves the fitted weights; a wrong denominator
moves only them. So the weights have a narrow tolerance, the residual a wide one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

EXACT = 1e-10  # relative, in float64
ROUNDED = 1e-4  # for float32 sums in a different order
TURNED = 0.02  # if rounding switched units
LOWER = 0.1  # under bfloat16 and float16
WEIGHTS = 0.004  # distance of fitted weights from those used, in float32; times five in lower precision
_SINGULAR = 1e-9  # gradients in the same direction determine no weights


@dataclass
class Agreement:
    """Compares one backward pass of one process with those of the slices, parameter by parameter.

    ``shares``: each rank's part of the samples; ``counts``: whether it has one.
    """

    shares: Sequence[float]
    counts: Sequence[bool]
    products: torch.Tensor | None = None  # dot products of the ranks' gradients with each other
    with_whole: torch.Tensor | None = None  # of each with one process's gradient
    whole: float = 0.0
    apart: dict[str, float] = field(default_factory=lambda: {"mean": 0.0, "sum": 0.0})

    def add(self, whole: torch.Tensor, parts: torch.Tensor) -> None:
        """``whole``: one process's gradient of a parameter, (elements); ``parts``: (ranks, elements)."""
        if self.products is None or self.with_whole is None:
            self.products = torch.zeros(len(parts), len(parts), dtype=torch.float64)
            self.with_whole = torch.zeros(len(parts), dtype=torch.float64)
        self.products += (parts @ parts.T).cpu()
        self.with_whole += (parts @ whole).cpu()
        self.whole += float(whole @ whole)
        for kind, weights in self.weights().items():
            given = torch.tensor(weights, dtype=torch.float64, device=parts.device)
            self.apart[kind] += float((given @ parts - whole).square().sum())

    def weights(self) -> dict[str, list[float]]:
        """The weights to test, one for each rank: for losses that are means over a batch, and sums."""
        return {"mean": list(self.shares), "sum": [float(counts) for counts in self.counts]}

    def residual(self, kind: str) -> float:
        """The distance of the weighted sum from one process's gradient, relative to that."""
        if self.whole == 0.0:
            return 0.0 if self.apart[kind] == 0.0 else math.inf
        return math.sqrt(self.apart[kind] / self.whole)

    def fitted(self) -> tuple[list[float], float]:
        """The weights that fit best, of the ranks that count, and the relative residual with them."""
        if self.products is None or self.with_whole is None or not self.whole:
            return [], 0.0
        chosen = [rank for rank, counts in enumerate(self.counts) if counts]
        products, right = self.products[chosen][:, chosen], self.with_whole[chosen]
        inverse = torch.linalg.pinv(products, rtol=_SINGULAR, hermitian=True)
        found = inverse @ right
        rest = self.whole - 2 * float(found @ right) + float(found @ products @ found)
        return found.tolist(), math.sqrt(max(rest, 0.0) / self.whole)

    def kinds(self, precision: str) -> list[str]:
        """Which of "mean" and "sum" hold. ``precision``: "float64", "float32" or "lower"."""
        return [kind for kind in ("mean", "sum") if self._holds(kind, precision)]

    def _holds(self, kind: str, precision: str) -> bool:
        found = self.residual(kind)
        if precision == "float64":
            return found <= EXACT
        if found <= ROUNDED:
            return True
        if not found <= (TURNED if precision == "float32" else LOWER):
            return False
        fitted, _ = self.fitted()
        used = [weight for weight, counts in zip(self.weights()[kind], self.counts, strict=True) if counts]
        tolerance = WEIGHTS * (1 if precision == "float32" else 5)
        return all(abs(a - b) <= tolerance * max(used) for a, b in zip(fitted, used, strict=True))

    def why_not(self, precision: str) -> str:
        """The reason if neither holds."""
        fitted, rest = self.fitted()
        used = [share for share, counts in zip(self.shares, self.counts, strict=True) if counts]
        if not math.isfinite(rest) or not math.isfinite(self.residual("mean")):
            return "the gradient is not a number in the first step"
        if rest <= (1e-6 if precision == "float64" else TURNED if precision == "float32" else LOWER):
            return (
                f"the gradients of the slices would have to weigh {_numbers(fitted)}, where they hold "
                f"{_numbers(used)} of the samples: the loss divides by something other than the number of "
                "samples (ignore_index, class weights, a mask), so slices of a batch do not add up to it"
            )
        return (
            f"the gradients of the slices do not add up to that of the batch ({self.residual('mean'):.1%} "
            "apart): the loss of a sample depends on the others of its batch (a contrastive loss, statistics "
            "over the batch, mixed samples), or random numbers are drawn that differ between processes"
        )


def plain(gradient: torch.Tensor) -> torch.Tensor:
    """A copy that is flat, dense, in float64 and on the CPU."""
    dense = gradient.to_dense() if gradient.layout != torch.strided else gradient
    return torch.flatten(dense.detach().to("cpu", torch.float64)).clone()


def _numbers(values: Sequence[float]) -> str:
    return " and ".join(f"{value:.3g}" for value in values)
