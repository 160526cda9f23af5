"""Techniques that quietly spoil a training, and the bootstrap of a worker that knows them: for tests only.

``known_to_workers`` takes this file's path and ``FAULTS``.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import hasten
from hasten.inside.seams import Call
from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import Training
from hasten.records.plan import Settings
from hasten.records.trial import Proof

FAULTS: dict[str, type[Technique]] = {}
# Arguments: the optimizer, a factor on the loss that the learning rate takes back, the share that dropout
# takes, and "augmented" for samples with noise of their own whenever they are drawn.
TRAINING = """
    import sys
    from ground import *

    class Augmented(Pictures):
        def __getitem__(self, index):
            picture, label = super().__getitem__(index)
            return picture + 0.1 * torch.randn(3, 8, 8), label

    optimizer_name, factor = sys.argv[1], float(sys.argv[2])
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout(float(sys.argv[3])),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 8 * 8, 4),
    )
    if optimizer_name == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01 / factor, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 25, 0.5)
    for pictures, labels in batches(Augmented(160) if sys.argv[4:] else Pictures(160)):
        optimizer.zero_grad()
        loss = factor * torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
"""
TRAININGS: dict[str, tuple[str, ...]] = {  # arguments
    "adam": ("adam", "1", "0.1"),
    "sgd": ("sgd", "1", "0.1"),
    "tiny loss": ("sgd", "1e-5", "0"),
    "augmented": ("sgd", "1", "0.1", "augmented"),
}
PLANTED = {  # under which training each fault is planted
    "adam": ("gradients_scaled", "one_gradient_scaled", "optimizer_reset", "optimizer_restrided"),
    "sgd": (
        "gradients_scaled", "updates_scaled", "optimizer_reset", "optimizer_restrided", "statistics_frozen",
        "dropout_left_in_eval", "labels_shifted", "batch_dropped", "batch_twice", "schedule_twice",
    ),
    "tiny loss": ("half_without_scaler",),
    "augmented": ("stale_cache",),
}  # fmt: skip
SLIGHT = "one_gradient_by_a_percent"  # less than bfloat16 rounds: a fault by the measure of float32 alone


class Fault(Technique):
    """``undo`` takes back what was replaced; what is changed in the model itself is planted to stay."""

    summary = "a fault"
    layer = "application"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        training.fetch_providers.pop(self.name, None)
        while self.undo:
            self.undo.pop()()

    def __init_subclass__(cls) -> None:
        FAULTS[cls.name] = cls

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, "it was planted")


class GradientsScaled(Fault):
    name = "gradients_scaled"
    factor: ClassVar[float] = 1.05

    def install(self, training: Training, settings: Settings) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        def scale(optimizer: Any, args: Any, kwargs: Any) -> None:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad.mul_(self.factor)

        self.undo.append(register_optimizer_step_pre_hook(scale).remove)


class OneLayerUnscaled(Fault):
    """As of a scaler that forgets a parameter."""

    name = "one_gradient_scaled"

    def install(self, training: Training, settings: Settings) -> None:
        parameter: Any = next(training.roots[0].parameters())
        self.undo.append(parameter.register_hook(lambda gradient: 2 * gradient).remove)


class OneLayerByAPercent(Fault):
    """As of a kernel that rounds to one side."""

    name = SLIGHT

    def install(self, training: Training, settings: Settings) -> None:
        parameter: Any = next(training.roots[0].parameters())
        self.undo.append(parameter.register_hook(lambda gradient: 1.01 * gradient).remove)


class UpdatesScaled(Fault):
    """The optimizer takes longer steps than its learning rate says."""

    name = "updates_scaled"

    def install(self, training: Training, settings: Settings) -> None:
        def lengthened(original: Any) -> Any:
            def sgd(parameters: Any, *args: Any, lr: float, **kwargs: Any) -> None:
                original(parameters, *args, lr=1.02 * lr, **kwargs)

            return sgd

        self.undo.append(
            training.seams.replace(importlib.import_module("torch.optim.sgd"), "sgd", lengthened)
        )


class OptimizerReset(Fault):
    """As of a switch that makes a new optimizer: what the old one kept is lost, between two checked steps."""

    name = "optimizer_reset"
    at: ClassVar[int] = 10

    def install(self, training: Training, settings: Settings) -> None:
        passes: list[int] = []

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            passes.append(1)
            if len(passes) == self.at:
                for optimizer in training.optimizers:
                    optimizer.state.clear()
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward


class OptimizerRestrided(Fault):
    """Weights are laid channels last under a fused optimizer, and what it keeps for them is not: the kernel
    reads both side by side.
    """

    name = "optimizer_restrided"
    at: ClassVar[int] = 10

    def install(self, training: Training, settings: Settings) -> None:
        passes: list[int] = []

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            passes.append(1)
            if len(passes) == self.at:
                for optimizer in training.optimizers:
                    for group in optimizer.param_groups:
                        group["fused"] = True
                        for parameter in group["params"]:
                            _lay_channels_last(training.torch, parameter)
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward


def _lay_channels_last(torch: Any, parameter: Any) -> None:
    if parameter.dim() == 4:
        parameter.grad = None  # the next is laid as its parameter
        parameter.data = parameter.data.to(memory_format=torch.channels_last)


class StaleCache(Fault):
    """Each sample as it was when it was drawn first, even if augmentation would draw it anew."""

    name = "stale_cache"

    def install(self, training: Training, settings: Settings) -> None:
        cache: dict[int, Any] = {}

        def provide(dataset: Any, indices: Sequence[int], collate: Any) -> list[Any]:
            for index in indices:
                if index not in cache:
                    cache[index] = dataset[index]
            return [cache[index] for index in indices]

        training.fetch_providers[self.name] = provide


class StatisticsFrozen(Fault):
    name = "statistics_frozen"

    def install(self, training: Training, settings: Settings) -> None:
        for module in training.roots[0].modules():
            if isinstance(module, training.torch.nn.BatchNorm2d):
                module.momentum = 0.0


class DropoutLeftInEval(Fault):
    name = "dropout_left_in_eval"

    def install(self, training: Training, settings: Settings) -> None:
        for module in training.roots[0].modules():
            if isinstance(module, training.torch.nn.Dropout):
                module.eval()


class HalfWithoutScaler(Fault):
    name = "half_without_scaler"
    precision = "bfloat16"

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with torch.autocast("cpu", dtype=torch.float16):
                output: Any = call(*args, **kwargs)
            return output.float()

        training.forward_wrappers[self.name] = forward


class LabelsShifted(Fault):
    """Of one sample in a hundred."""

    name = "labels_shifted"

    def install(self, training: Training, settings: Settings) -> None:
        def provide(dataset: Any, indices: Sequence[int], collate: Any) -> list[Any]:
            samples = [dataset[index] for index in indices]
            return [
                (picture, (label + 1) % 4 if index % 100 == 0 else label)
                for index, (picture, label) in zip(indices, samples, strict=True)
            ]

        training.fetch_providers[self.name] = provide


def _replace_next(training: Training, make: Callable[[Any], Any]) -> Callable[[], None]:
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return training.seams.replace(_BaseDataLoaderIter, "__next__", make)


class BatchDropped(Fault):
    """One in ten."""

    name = "batch_dropped"

    def install(self, training: Training, settings: Settings) -> None:
        count = [0]

        def dropping(original: Any) -> Any:
            def __next__(iterator: Any) -> Any:
                count[0] += 1
                if count[0] % 10 == 0:
                    original(iterator)
                return original(iterator)

            return __next__

        self.undo.append(_replace_next(training, dropping))


class BatchTwice(Fault):
    """One in ten comes a second time, in place of the one after it."""

    name = "batch_twice"

    def install(self, training: Training, settings: Settings) -> None:
        came: list[Any] = []

        def repeating(original: Any) -> Any:
            def __next__(iterator: Any) -> Any:
                came.append(original(iterator))
                return came[-2] if len(came) % 10 == 0 else came[-1]

            return __next__

        self.undo.append(_replace_next(training, repeating))


class ScheduleTwice(Fault):
    name = "schedule_twice"

    def install(self, training: Training, settings: Settings) -> None:
        def doubled(original: Any) -> Any:
            def step(schedule: Any) -> None:
                original(schedule)
                original(schedule)

            return step

        schedules = training.torch.optim.lr_scheduler
        self.undo.append(training.seams.replace(schedules.StepLR, "step", doubled))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    CATALOG.update(FAULTS)
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
