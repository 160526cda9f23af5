"""A small real training in the test's own process, under the same seams that a worker installs."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from ..inside.internals.modules import count_hooks
from ..inside.observing.hooks import Hooks
from ..inside.observing.observer import Observer
from ..inside.observing.raw_step import RawStep
from ..inside.random_state import fingerprint, rng_states, set_rng_states
from ..inside.seams import Seams
from ..inside.switch import Switchboard
from ..inside.training import Training
from ..records.plan import BASELINE

Snapshot = dict[str, Any]
LossOf = Callable[[torch.nn.Module, Any, Any], Any]
"""(model, inputs, labels) -> the loss of a batch."""
Context = Callable[[], AbstractContextManager[object]]


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Forty images (3, 8, 8) with labels 0 to 3, the same whenever they are read."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        self.pictures = torch.randn(40, 3, 8, 8, generator=generator)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pictures[index] * 2.0, index % 4


def small_cnn() -> torch.nn.Module:
    """Two convolutions and a linear layer: images (batch, 3, 8, 8) to logits (batch, 4)."""
    return torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU()),
        torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU()),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 8 * 8, 4),
    )


def normed_cnn() -> torch.nn.Module:
    """``small_cnn`` with batch norm after its second convolution."""
    model = small_cnn()
    second = model.get_submodule("1")
    assert isinstance(second, torch.nn.Sequential)
    second.insert(1, torch.nn.BatchNorm2d(8))
    return model


def pooled_cnn() -> torch.nn.Module:
    """Two convolutions with pooling and a linear layer: images (batch, 3, 8, 8) to logits (batch, 4)."""
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 2)),
        *(torch.nn.Flatten(), torch.nn.Linear(64, 4)),
    )


def patch_cnn() -> torch.nn.Module:
    """Patches of 2x2, lines of these, and a linear layer: images (batch, 3, 8, 8) to logits (batch, 4)."""
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 2, stride=2), torch.nn.ReLU()),
        *(torch.nn.Conv2d(8, 8, (2, 4)), torch.nn.ReLU()),
        *(torch.nn.Flatten(), torch.nn.Linear(24, 4)),
    )


def adam_by_parameter(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Adam with a parameter group for each parameter."""
    return torch.optim.Adam([{"params": [parameter]} for parameter in parameters])


def of_classes(model: torch.nn.Module, inputs: Any, labels: Any) -> Any:
    """The cross-entropy of a batch."""
    return torch.nn.functional.cross_entropy(model(inputs), labels)


class Workbench:
    """``train(k)`` takes k steps; ``restore`` goes back to a ``snapshot``, RNG states included."""

    def __init__(
        self,
        seams: Seams,
        dataset: Dataset[Any],
        make_optimizer: Callable[..., Any],
        make_model: Callable[[], torch.nn.Module],
        loss_of: LossOf,
        device: str,
    ) -> None:
        self.steps: list[RawStep] = []
        self.training = Training(torch, seams, available_bytes=2**32)
        self.switchboard = Switchboard(self.training)
        self.observer = Observer(self._step_ended)
        self.hooks = Hooks(self.training, self.observer, self.switchboard.refresh)
        self.hooks.install()
        torch.manual_seed(3)
        self.device = device
        self._make_model, self._make_optimizer = make_model, make_optimizer
        self._begin(dataset)
        self.losses: list[float] = []
        self.loss_of = loss_of
        self.evaluates: Context | None = None  # if set: evaluate each step's batch, within this
        self.set_to_none = True  # what the script passes to zero_grad: torch's default

    def begin(self) -> None:
        """Begin another training, with its own model, optimizer and data set."""
        self._begin(copy.deepcopy(self.loader.dataset))

    def _begin(self, dataset: Dataset[Any]) -> None:
        self.model = self._make_model().to(self.device)
        self.optimizer = self._make_optimizer(self.model.parameters())
        self.loader = DataLoader(dataset, batch_size=8, shuffle=True)

    def _step_ended(self, step: RawStep) -> None:
        self.steps.append(step)
        self.training.step_ended()

    def train(self, steps: int) -> list[float]:
        """Take ``steps`` steps from the beginning of an epoch. Returns their losses."""
        losses: list[float] = []
        while len(losses) < steps:
            for inputs, labels in self.loader:
                self.optimizer.zero_grad(set_to_none=self.set_to_none)
                inputs, labels = inputs.to(self.device), labels.to(self.device)
                loss = self.loss_of(self.model, inputs, labels)
                torch.autograd.backward(loss)
                self.optimizer.step()
                losses.append(loss.item())
                if self.evaluates is not None:
                    self.model.eval()
                    with self.evaluates():
                        self.model(inputs)
                    self.model.train()
                if len(losses) == steps:
                    break
        return losses

    def snapshot(self) -> Snapshot:
        """Copies of the model's and the optimizer's state, and the RNG states, for ``restore``."""
        return {
            "model": copy.deepcopy(self.model.state_dict()),
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "rng": rng_states(torch),
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to ``snapshot``."""
        self.model.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(copy.deepcopy(snapshot["optimizer"]))
        set_rng_states(torch, snapshot["rng"])

    def bits(self) -> dict[str, Any]:
        """Everything that a technique could change: values, strides, gradients, state, flags, hooks."""
        held: dict[str, Any] = {}
        for name, parameter in self.model.named_parameters():
            gradient = parameter.grad
            held[name] = (_bits(parameter), None if gradient is None else _bits(gradient))
            for key, value in self.optimizer.state.get(parameter, {}).items():
                held[f"{name}.{key}"] = _bits(value)
        held["groups"] = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups]
        held["hooks"] = [count_hooks(m) for m in self.model.modules()]
        held["optimizer attributes"] = sorted(vars(self.optimizer))
        held["rng"] = fingerprint(torch)
        return held


@contextmanager
def workbench(
    dataset: Dataset[Any] | None = None,
    make_optimizer: Callable[..., Any] = torch.optim.Adam,
    make_model: Callable[[], torch.nn.Module] = small_cnn,
    loss_of: LossOf = of_classes,
    device: str = "cpu",
) -> Iterator[Workbench]:
    """A workbench. At the end its techniques and seams are undone, whatever happened."""
    seams = Seams()
    try:
        data = dataset if dataset is not None else Pictures()
        made = Workbench(seams, data, make_optimizer, make_model, loss_of, device)
        with TemporaryDirectory(prefix="hasten-") as folder:
            made.training.sample_folder = os.path.join(folder, "samples")
            yield made
            made.switchboard.switch(BASELINE)
    finally:
        seams.undo_all()


def _bits(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        tensor.dtype,
        str(tensor.device),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.detach().contiguous().cpu().numpy().tobytes(),
    )
