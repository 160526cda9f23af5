"""A global batch ``factor`` times as large, in one of two ways.

by "loader": every DataLoader that draws its samples in random order is built with so many times its batch
size, so the script's own loop takes fewer, larger steps: ``len(loader)`` says so, and schedules made from it
still end where they should. What the script counts in steps without asking the loader (a warm-up of 500
steps, a loop of 10,000 steps) then sees ``factor`` times the samples. Other loaders, of validation say, stay
as they are, and so does one whose dataset is smaller than the larger batch.

by "accumulation": the script's loop stays as it is. Of ``factor`` calls of an optimizer's step, all but the
last find no gradient and change nothing; the last finds the mean of all. Clipping is done by the script
before that, batch by batch. What is left over when the script ends is not used.

The learning rate that each step uses is the script's times ``factor`` (rate "linear"), its square root
("sqrt"), or 1 ("none"); between steps, and in checkpoints, it is the script's own.

A larger batch from the loader helps where a step does too little work to keep the machine busy. It needs more
memory for activations: whether there is enough is found by trying. Accumulation needs that of one more
gradient, of two while they are used, and helps where the optimizer's own work is much of a step. Fewer steps
an epoch can cost quality, and no rule for the rate holds for every model: that is for `hasten verify` to say.

Source: https://arxiv.org/abs/1706.02677 (linear), https://arxiv.org/abs/1404.5997 (square root)
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...records.facts import Facts
from ...records.observation import Loader
from ...records.plan import Settings
from ...records.trial import Proof
from ..observing.identify import length_of
from ..training import NotApplicable, Training
from .base import Technique, conflicting
from .support.accumulation import GradientSum, StepUnderWay, told_of_failure

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
        self._scale = 1.0
        self._sums: dict[int, GradientSum] | None = (
            None  # by optimizer; None: batches come larger from the loader
        )
        self._steps = 0
        self._schedules = 0
        self._begun: dict[int, StepUnderWay] = {}  # steps under way, by optimizer
        self._undo: list[Callable[[], None]] = []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not facts.observation.optimizers:
            return ["the script has no torch optimizer whose learning rate could follow"]
        return []

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Twice and four times the batch, as far as the dataset reaches; by accumulation where no loader can
        give it.
        """
        loaders = [loader for loader in facts.observation.loaders if loader.training]
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
                f"batch_size needs factor, a whole number from 2 to {_MOST}, and takes rate and by besides"
            )
        if rate not in _RATES:
            raise ValueError(f"rate must be one of {', '.join(_RATES)}, found {rate!r}")
        if settings.get("by", _WAYS[0]) not in _WAYS:
            raise ValueError(f"by must be one of {', '.join(_WAYS)}, found {settings['by']!r}")

    def start(self, training: Training, settings: Settings) -> None:
        """Loaders are enlarged as they are built: only then does the script see the right length."""
        if settings.get("by") == "accumulation":
            return
        from torch.utils.data import DataLoader

        enlarged: _Enlarged = training.kept.setdefault(self.name, _Enlarged(int(settings["factor"])))
        signature = inspect.signature(vars(DataLoader)["__init__"])

        def building(original: Any) -> Any:
            def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
                try:
                    bound = signature.bind(loader, *args, **kwargs)
                except TypeError:
                    original(loader, *args, **kwargs)  # which says what is wrong
                    return
                enlarged.change(bound.arguments, training.torch)
                original(*bound.args, **bound.kwargs)

            return __init__

        training.seams.replace(DataLoader, "__init__", building)

    def install(self, training: Training, settings: Settings) -> None:
        factor = int(settings["factor"])
        self._scale = _RATES[str(settings.get("rate", "linear"))](factor)
        if settings.get("by") == "accumulation":
            if any(isinstance(optimizer, training.torch.optim.LBFGS) for optimizer in training.optimizers):
                raise NotApplicable("LBFGS computes its gradients within its step")
            self._sums = {}
        sums = self._sums
        begun = self._begun

        def begins(optimizer: Any, args: Any, kwargs: Any) -> None:
            frame = sys._getframe(1)  # the step's own: its hooks are called from there
            if id(optimizer) in begun:
                if begun[id(optimizer)].is_around(frame):
                    return  # a step within its own step
                begun.pop(id(optimizer)).take_back()
            gathered = sums.setdefault(id(optimizer), GradientSum(factor)) if sums is not None else None
            begun[id(optimizer)] = StepUnderWay(optimizer, frame, gathered, self._scale)

        def ends(optimizer: Any, args: Any, kwargs: Any) -> None:
            step = begun.pop(id(optimizer), None)
            if step is not None:  # else of a step whose own step has ended
                self._steps += not step.end()

        def scheduling(original: Any) -> Any:
            def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
                self._schedules += 1
                return original(scheduler, *args, **kwargs)

            return step

        hooks = [hook for o in training.optimizers for hook in _around_steps(o, begins, ends)]
        self._undo = [training.seams.on_undo(hook.remove) for hook in hooks]
        for optimizer in training.optimizers:
            self._undo.append(training.seams.on_undo(told_of_failure(optimizer, self._take_back_what_failed)))
        schedulers = training.torch.optim.lr_scheduler.LRScheduler
        self._undo.append(training.seams.replace(schedulers, "step", scheduling))

    def _take_back_what_failed(self) -> None:
        """Of steps that have raised."""
        now = sys._getframe(1)
        for key, step in list(self._begun.items()):
            if not step.is_around(now):
                del self._begun[key]
                step.take_back()

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()
        self._take_back_what_failed()

    def proof(self, training: Training) -> Proof:
        """A loader that was built with the larger batch must be one that the training reads, and optimizer
        steps that used the other learning rate are counted. It also tells whether schedules are stepped
        with every step or once in a while.
        """
        if self._sums is not None:
            batches = sum(each.batches for each in self._sums.values())
            effective, found = self._steps > 0, f"gradients of {batches} batches gathered"
        else:
            enlarged: _Enlarged = training.kept.get(self.name) or _Enlarged(1)
            read = [sizes for key, sizes in enlarged.sizes.items() if key in training.training_datasets]
            changed = ", ".join(f"batches of {after} in place of {before}" for before, after in read)
            none = "no loader of the training draws in random order, by=accumulation needs none"
            effective, found = bool(read) and self._steps > 0, changed or enlarged.why_not or none
        evidence = f"{found}; {self._steps} steps at {self._scale:.3g} times the script's learning rate"
        if self._schedules and self._sums is None:
            often = self._schedules > self._steps / 2
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
        if settings.get("by") == "accumulation":
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


@dataclass
class _Enlarged:
    """What was done to loaders. ``sizes``: by dataset, the batch size as written and as built."""

    factor: int
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    datasets: list[Any] = field(default_factory=list)  # alive, so that their numbers stay theirs
    why_not: str = ""

    def change(self, arguments: dict[str, Any], torch: Any) -> None:
        """Enlarge the batch among the ``arguments`` of a loader about to be built, if it trains."""
        dataset, size = arguments.get("dataset"), arguments.get("batch_size", 1)
        if (
            size is None
            or arguments.get("batch_sampler") is not None
            or not self._in_random_order(arguments, torch)
        ):
            return
        if self.sizes.get(id(dataset), (0, 0))[1] == size:
            return  # built anew from one of ours, as Lightning does
        samples = length_of(dataset)
        if samples is None or size * self.factor > samples:
            self.why_not = f"a batch of {size * self.factor} is more than the {samples} samples there are"
            return
        self.sizes[id(dataset)] = (size, size * self.factor)
        self.datasets.append(dataset)
        arguments["batch_size"] = size * self.factor

    @staticmethod
    def _in_random_order(arguments: dict[str, Any], torch: Any) -> bool:
        data = torch.utils.data
        if isinstance(arguments.get("dataset"), data.IterableDataset):
            return False
        sampler = arguments.get("sampler")
        if sampler is None:
            return bool(arguments.get("shuffle"))
        return not isinstance(sampler, data.SequentialSampler) and bool(getattr(sampler, "shuffle", True))


def _around_steps(optimizer: Any, begins: Any, ends: Any) -> tuple[Any, Any]:
    """Hooks of its own: torch may be going through the global ones when a technique is switched on."""
    return optimizer.register_step_pre_hook(begins), optimizer.register_step_post_hook(ends)


def is_large_enough(loader: Loader, factor: int) -> bool:
    """Whether its batches can be ``factor`` times as large: no stream, no batch sampler of the script's."""
    known = loader.samples is not None and not loader.iterable and loader.batch_size is not None
    return known and loader.batch_size * factor <= loader.samples  # type: ignore[operator]
