"""A global batch ``factor`` times as large, in one of two ways.

by "loader": every DataLoader that draws its samples in random order is built with ``factor`` times its batch
size, so the script's own loop takes fewer, larger steps: ``len(loader)`` says so, and schedules made from it
still end where they should. Anything that the script counts in steps without asking the loader (a warm-up of
500 steps, a loop of 10,000 steps) then sees ``factor`` times the samples. Other loaders, for validation, stay
as they are, and so does one whose dataset is smaller than the larger batch.

by "accumulation": the script's loop stays as it is. Of ``factor`` calls of an optimizer's step, all but the
last find no gradient and change nothing; the last gets the mean of all. The script clips gradients before
that, batch by batch. What is left over when the script ends is not used.

The learning rate that each step uses is the script's times ``factor`` (rate "linear"), its square root
("sqrt"), or 1 ("none"); between steps, and in checkpoints, it is the script's own.

A larger batch from the loader helps if a step does too little work to keep the machine busy. It needs more
memory for activations; trying shows whether there is enough. Accumulation needs memory for one more gradient,
two while they are used, and helps if the optimizer's own work is a large part of a step. Fewer steps per
epoch can cost quality, and no rule for the learning rate holds for every model: `hasten verify` must judge
that.

Source: https://arxiv.org/abs/1706.02677 (linear), https://arxiv.org/abs/1404.5997 (square root)
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...records.facts import Facts
from ...records.observation import STEPS_IN_BACKWARD
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique, conflicting
from .support.larger_batches import LargerBatches, is_large_enough
from .support.scaled_steps import ScaledSteps

_RATES: dict[str, Callable[[float], float]] = {
    "linear": float,
    "sqrt": math.sqrt,
    "none": lambda _: 1.0,
}
_MOST = 64
_WAYS = ("loader", "accumulation")


class BatchSize(Technique):
    name = "batch_size"
    summary = "larger batches, with a learning rate to match"
    layer = "application"
    risk = "training"
    scope = "process"
    conflicts = conflicting(optimizer_in_backward="it leaves no gradient to accumulate")

    def __init__(self) -> None:
        self._steps = ScaledSteps()

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not facts.observation.optimizers:
            return ["the script has no torch optimizer whose learning rate could follow"]
        if STEPS_IN_BACKWARD in facts.observation.uses:
            return ["its optimizers step within the backward pass: no gradient is left to accumulate"]
        return []

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Twice and four times the batch, as far as the dataset reaches; by accumulation where no loader can
        give it.
        """
        loaders = facts.observation.training_loaders
        factors = [
            factor for factor in (2, 4) if loaders and all(is_large_enough(one, factor) for one in loaders)
        ]
        ways: list[Settings] = [{"factor": factor} for factor in factors]
        ways = ways or [{"factor": factor, "by": "accumulation"} for factor in (2, 4)]
        return [{**way, "rate": rate} for way in ways for rate in ("linear", "sqrt")]

    @classmethod
    def check(cls, settings: Settings) -> None:
        factor, rate = settings.get("factor"), settings.get("rate", "linear")
        whole = isinstance(factor, int) and not isinstance(factor, bool) and 2 <= factor <= _MOST
        if not whole or set(settings) - {"factor", "rate", "by"}:
            raise ValueError(
                f"batch_size needs factor, a whole number from 2 to {_MOST}, and may have rate and by"
            )
        if rate not in _RATES:
            raise ValueError(f"rate must be one of {', '.join(_RATES)}, found {rate!r}")
        if settings.get("by", _WAYS[0]) not in _WAYS:
            raise ValueError(f"by must be one of {', '.join(_WAYS)}, found {settings['by']!r}")

    def start(self, training: Training, settings: Settings) -> None:
        if not _accumulates(settings):
            training.kept.setdefault(self.name, LargerBatches(int(settings["factor"]))).build(training)

    def install(self, training: Training, settings: Settings) -> None:
        factor = int(settings["factor"])
        scale = _RATES[str(settings.get("rate", "linear"))](factor)
        self._steps = ScaledSteps(scale, factor if _accumulates(settings) else None)
        self._steps.put_around(training)

    def remove(self, training: Training) -> None:
        self._steps.take_back()

    def proof(self, training: Training) -> Proof:
        """A loader that was built with the larger batch must be one that the training reads, and optimizer
        steps that used the other learning rate are counted. It also tells whether schedules are stepped
        with every step or once in a while.
        """
        steps = self._steps
        if steps.gathered is not None:
            effective, found = steps.taken > 0, f"gradients of {steps.batches} batches gathered"
        else:
            larger: LargerBatches = training.kept.get(self.name) or LargerBatches(1)
            trained = set(map(id, training.training_datasets))
            read = [sizes for key, sizes in larger.sizes.items() if key in trained]
            changed = ", ".join(f"batches of {after} in place of {before}" for before, after in read)
            none = "no loader of the training draws in random order, by=accumulation needs none"
            effective, found = bool(read) and steps.taken > 0, changed or larger.why_not or none
        evidence = f"{found}; {steps.taken} steps at {steps.scale:.3g} times the script's learning rate"
        if steps.schedules and steps.gathered is None:
            often = steps.schedules > steps.taken / 2
            evidence += (
                "; schedules are stepped with every step: one whose length was not taken from the loader "
                "now spans more samples"
                if often
                else "; schedules are stepped by the epoch, and stay as they are"
            )
        return Proof(self.name, effective, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        factor = settings.get("factor", 2)
        rates = {"linear": f" * {factor}", "sqrt": f" * {factor} ** 0.5", "none": ""}
        rate = rates[str(settings.get("rate", "linear"))]
        if _accumulates(settings):
            return (
                f"optimizer = torch.optim.SGD(model.parameters(), lr=LR{rate})\n"
                "for number, (inputs, labels) in enumerate(loader, start=1):\n"
                f"    (criterion(model(inputs), labels) / {factor}).backward()\n"
                f"    if number % {factor} == 0:\n"
                "        optimizer.step()\n"
                "        optimizer.zero_grad()"
            )
        return (
            f"loader = DataLoader(dataset, batch_size=BATCH_SIZE * {factor}, shuffle=True)\n"
            f"optimizer = torch.optim.SGD(model.parameters(), lr=LR{rate})"
        )


def _accumulates(settings: Settings) -> bool:
    return settings.get("by") == "accumulation"
