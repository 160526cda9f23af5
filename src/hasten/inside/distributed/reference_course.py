"""The course of a training, step by step, that one process writes and ranks are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..guarding.step_numbers import ANOTHER, DRIFTED, END, EVALUATED, Event, apart, as_line, read_events
from ..seams import Call
from ..training import Training

_SAMPLED = 16  # elements of each parameter's gradient


class ReferenceCourse:
    """``alone``: this is the one process, which writes ``path``. Ranks read it; ``different`` is called once,
    with the first difference in words.
    """

    def __init__(self, training: Training, path: Path, alone: bool, different: Callable[[str], None]) -> None:
        self._training, self._different = training, different
        expected = () if alone else read_events(path)
        self._expected = iter([event for event in expected if event.kind != EVALUATED])
        self._file = path.open("w", encoding="utf-8") if alone else None
        self._ended = False
        self.precision = ""  # "float64", "float32" or "lower"; unknown at first, and nothing is compared then
        self.steps = 0
        self._evaluations = 0  # since the last step

    def install(self) -> None:
        from torch.optim.lr_scheduler import ReduceLROnPlateau
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        seams = self._training.seams
        seams.on_undo(register_optimizer_step_pre_hook(self._stepping).remove)
        seams.replace(ReduceLROnPlateau, "step", self._around_plateau)

    def evaluated(self) -> None:
        """A model was called without gradients."""
        self._evaluations += 1

    def script_ended(self) -> None:
        self._came(Event(END, self.steps, ()))

    def _stepping(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if self._file is not None:
            self._came(Event(EVALUATED, self.steps, [float(self._evaluations)]))
        self._evaluations = 0
        self.steps += 1
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self._came(Event("learning rates", self.steps, rates))
        self._came(Event("gradient", self.steps, _sketch(optimizer)))

    def _around_plateau(self, original: Call) -> Call:
        def step(scheduler: object, metrics: Any, *args: object, **kwargs: object) -> object:
            self._came(Event("metric", self.steps, [float(metrics)]))
            return original(scheduler, metrics, *args, **kwargs)

        return step

    def _came(self, event: Event) -> None:
        if self._file is not None:
            self._file.write(as_line(event))
            self._file.flush()  # so that it is saved even if this process is killed
        elif not self._ended:
            self._compare(event)

    def _compare(self, event: Event) -> None:
        expected = next(self._expected, None)
        if expected is None:
            self._ended = True  # the single process trained no further
        if expected is None or self.precision not in ANOTHER:
            return
        far = apart(expected, event)
        if far > DRIFTED[self.precision]:
            self._ended = True
        if far > ANOTHER[self.precision]:
            self._different(_in_words(expected, event, far))


def _sketch(optimizer: torch.optim.Optimizer) -> list[float]:
    """The norm of each gradient, and some of its elements."""
    found: list[float] = []
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.detach()
                flat = torch.flatten(gradient.to_dense() if gradient.layout != torch.strided else gradient)
                some = flat[:: max(1, len(flat) // _SAMPLED)].double()
                found += [float(flat.double().norm()), *some.tolist()]
    return found


def _in_words(expected: Event, event: Event, far: float) -> str:
    step = f"in step {event.step}"
    if END in (expected.kind, event.kind):
        ranks, one = ("end", "goes on") if event.kind == END else ("go on", "ends")
        return (
            f"after step {event.step - (event.kind != END)} ranks {ranks}, where one process {one}: what a "
            "rank computes from its part of a batch, or reads from its clock, ends the training"
        )
    if expected.kind != event.kind:
        return f"{step} ranks have a {event.kind}, where one process has a {expected.kind}"
    if event.kind == "metric":
        return (
            f"after step {event.step} a schedule is given {event.values[0]:.6g}, where one process gives it "
            f"{expected.values[0]:.6g}: it is computed from a rank's part of a batch"
        )
    if event.kind == "learning rates":
        return (
            f"{step} the learning rate is {event.values[0]:.6g}, and {expected.values[0]:.6g} in one process"
        )
    how_far = f"{far:.1%} apart" if math.isfinite(far) else "of other parameters"
    return (
        f"{step} the gradient that comes to the optimizer is not that of one process ({how_far}): the "
        "loss, or what is done to the gradient, depends on which samples a rank has"
    )
