"""What a training does step by step, as numbers: one process writes it down, and ranks are held against it.

Trainings that differ by rounding drift apart by and by; what means something else is another number at once.
So a comparison ends where numbers have drifted a little, and what is far off without having drifted counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..training import Training

_SAMPLED = 16  # elements of each parameter's gradient
_DRIFTED = {"float64": 1e-8, "float32": 1e-3}  # relative
_ANOTHER = {"float64": 1e-6, "float32": 0.05}


@dataclass(frozen=True)
class Event:
    """``kind``: "gradient", as the optimizer gets it; "learning rates"; "metric", given to a scheduler."""

    kind: str
    step: int
    values: Sequence[float]


class Trace:
    """``alone``: one process, which writes ``path``; ranks read it, and ``different`` is told once why they
    are not one process.
    """

    def __init__(self, training: Training, path: Path, alone: bool, different: Callable[[str], None]) -> None:
        self._training, self._different = training, different
        self._expected = iter(() if alone else _read(path))
        self._file = path.open("w", encoding="utf-8") if alone else None
        self._ended = False
        self.precision = ""  # "float64", "float32" or "lower"; unknown at first, and nothing is compared then
        self.steps = 0

    def install(self) -> None:
        from torch.optim.lr_scheduler import ReduceLROnPlateau
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        seams = self._training.seams
        seams.on_undo(register_optimizer_step_pre_hook(self._stepping).remove)
        seams.replace(ReduceLROnPlateau, "step", self._around_plateau)

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.steps += 1
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self._came(Event("learning rates", self.steps, rates))
        self._came(Event("gradient", self.steps, _sketch(optimizer)))

    def _around_plateau(self, original: Any) -> Any:
        def step(scheduler: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
            self._came(Event("metric", self.steps, [float(metrics)]))
            return original(scheduler, metrics, *args, **kwargs)

        return step

    def _came(self, event: Event) -> None:
        if self._file is not None:
            self._file.write(json.dumps([event.kind, event.step, list(event.values)]) + "\n")
            self._file.flush()  # whoever is stopped has written it
        elif not self._ended:
            self._compare(event)

    def _compare(self, event: Event) -> None:
        expected = next(self._expected, None)
        if expected is None:
            self._ended = True  # no further was it trained by one process
        if expected is None or self.precision not in _ANOTHER:
            return
        apart = _apart(expected, event)
        if apart > _DRIFTED[self.precision]:
            self._ended = True
        if apart > _ANOTHER[self.precision]:
            self._different(_in_words(expected, event, apart))


def _read(path: Path) -> list[Event]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Event(*json.loads(line)) for line in lines]


def _sketch(optimizer: Any) -> list[float]:
    """The norm of each gradient, and some of its elements."""
    found: list[float] = []
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.detach()
                flat = (gradient.to_dense() if gradient.layout != torch.strided else gradient).reshape(-1)
                some = flat[:: max(1, len(flat) // _SAMPLED)].double()
                found += [float(flat.double().norm()), *some.tolist()]
    return found


def _apart(expected: Event, event: Event) -> float:
    """Relative; infinite where it is another event altogether."""
    if (expected.kind, len(expected.values)) != (event.kind, len(event.values)):
        return math.inf
    size = math.dist(expected.values, [0.0] * len(expected.values))
    apart = math.dist(expected.values, event.values)
    if math.isnan(apart):  # of both, or of none
        alike = [math.isnan(a) == math.isnan(b) for a, b in zip(expected.values, event.values, strict=True)]
        return 0.0 if all(alike) else math.inf
    return apart / size if size else (0.0 if apart == 0.0 else math.inf)


def _in_words(expected: Event, event: Event, apart: float) -> str:
    step = f"in step {event.step}"
    if expected.kind != event.kind:
        return f"{step} ranks come to a {event.kind} where one process comes to a {expected.kind}"
    if event.kind == "metric":
        return (
            f"after step {event.step} a schedule is given {event.values[0]:.6g}, where one process gives it "
            f"{expected.values[0]:.6g}: it is computed from a rank's part of a batch"
        )
    if event.kind == "learning rates":
        return (
            f"{step} the learning rate is {event.values[0]:.6g}, and {expected.values[0]:.6g} in one process"
        )
    far = f"{apart:.1%} apart" if math.isfinite(apart) else "of other parameters"
    return (
        f"{step} the gradient that comes to the optimizer is not that of one process ({far}): the loss, or "
        "what is done to the gradient, depends on which samples a rank has"
    )
