"""What the guard compares between two runs: batches, flags, learning rates, RNG states and losses, step by
step, and what is printed about evaluations.
"""

from __future__ import annotations

import hashlib
import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ...records.trace import BatchTrace, Mode, StepTrace
from ..internals.loaders import batches_given, reads_indices
from ..observing.raw_step import RawStep
from ..random_state import fingerprint
from ..samples.dataset_traits import length_of
from ..seams import Args, Call, Kwargs
from ..training import Training
from .digests import Digests, of_whole_numbers
from .evaluation_prints import Printed

if TYPE_CHECKING:
    from torch.nn import Module

    from ..internals.loaders import LoaderIterator


class Recorder:
    """Records one trace entry per step. Only reads; noise is up to ``perturber.Perturber``."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._batches: list[str] = []
        self._samples: list[BatchTrace] = []
        self._epochs: weakref.WeakKeyDictionary[LoaderIterator, int] = weakref.WeakKeyDictionary()
        self._epochs_begun = 0
        self._inputs: list[str] = []
        self._modes: list[Mode] = []
        self._steps: list[StepTrace] = []
        self._printed = Printed(training.seams)
        self._optimizers: set[int] = set()  # serials of those that have stepped
        self._loaded = False  # weights of a trained model were loaded since the last step
        training.forward_wrappers["recorder"] = self._forward
        training.on_inputs = self._inputs_came
        training.seams.replace(training.torch.nn.Module, "load_state_dict", self._around_load)

    def batch_came(self, batch: object, iterator: LoaderIterator | None = None) -> None:
        """Note the digest of a batch and of its samples, and which epoch it is from."""
        digests = Digests(batch)
        self._batches.append(digests.of_all())
        if iterator is not None:
            if batches_given(iterator) == 1 or iterator not in self._epochs:
                self._epochs[iterator] = self._epochs_begun
                self._epochs_begun += 1
            known = length_of(iterator) if reads_indices(iterator) else None  # a stream's length is a guess
            self._samples.append(BatchTrace(self._epochs[iterator], known, digests.of_samples()))

    def _inputs_came(self, inputs: object) -> None:
        """Note what a pass was given, where no loader made this step's batch."""
        if not self._batches:
            self._inputs += of_whole_numbers(inputs)

    def _forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        otherwise = tuple(name for name, module in root.named_modules() if module.training != root.training)
        self._modes.append(Mode(root.training, otherwise))
        return call(*args, **kwargs)

    def _around_load(self, original: Call) -> Call:
        def load_state_dict(module: Module, *args: object, **kwargs: object) -> object:
            trained = {id(p) for root in self._training.roots for p in root.parameters()}
            self._loaded = self._loaded or any(id(p) in trained for p in module.parameters())
            return original(module, *args, **kwargs)

        return load_state_dict

    def _begins(self, step: RawStep) -> bool:
        serial = self._training.serial_of(step.optimizer)
        anew = self._loaded or serial not in self._optimizers
        self._optimizers.add(serial)
        self._loaded = False
        return anew and bool(self._steps)

    def step_ended(self, step: RawStep) -> None:
        """Add the step to the trace."""
        drawn = hashlib.blake2b(repr(self._random_state()).encode(), digest_size=12)
        self._steps.append(
            StepTrace(
                optimizer=step.optimizer,
                batches=tuple(self._batches),
                samples=tuple(self._samples),
                inputs=tuple(self._inputs),
                modes=tuple(self._modes),
                rates=tuple(
                    tuple(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)
                    for optimizer in self._training.optimizers
                ),
                streams=drawn.hexdigest(),
                losses=tuple(float(loss) for loss in step.losses),
                printed=self._printed.take() if step.evaluations else (),
                begins=self._begins(step),
            )
        )
        self._printed.forget()
        self._batches, self._samples, self._inputs, self._modes = [], [], [], []

    def _random_state(self) -> object:
        """The RNG states; with ranks, the shared ones, which are those that one process has."""
        this_rank = self._training.this_rank
        with this_rank.rng.shared() if this_rank is not None else nullcontext():
            return fingerprint(self._training.torch)

    def trace(self) -> tuple[StepTrace, ...]:
        return tuple(self._steps)
