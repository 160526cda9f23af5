"""One step of the script in a fork of a rank, on the whole batch or on a slice, for its gradients alone.

The fork gets its own batch from the loader, goes on in the script and ends with the batch's last backward
pass. It is a small rehearsal: dropout is off, noise is that of the whole batch, and it computes in float64
where it can. Batch norm uses its running statistics, so a sample's gradient depends on no other sample, and
the forks need no communication. Optimizers take no steps, so all passes are of the same model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..guarding.doubled import (
    DOUBLE,
    SINGLE,
    double_all,
    doubled,
)
from ..internals import compiler
from ..internals.loaders import collate_of, dataset_of
from ..random_state import State, set_rng_states
from ..samples.fetching import samples_of
from ..seams import Call
from .agreement import plain
from .aligned import AlignedDraws, quiet_recurrent, without_dropout
from .harmless import make_harmless
from .slicing import Slice

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator
    from .this_rank import ThisRank

WIDTH = 8  # numbers in the sketch of a parameter's gradient
_REASON_CHARACTERS = 300


@dataclass(frozen=True)
class Alike:
    """What all forks start with: the same RNG states, and batch norm's buffers with their values."""

    rng: State
    statistics: Sequence[tuple[torch.Tensor, torch.Tensor]]


class StepApart:
    """Made in the fork, while the script waits for a batch. ``part``: the samples of it that this fork trains
    on. Gradients of ``passes`` backward passes are written to the file ``descriptor``.
    """

    def __init__(
        self, this_rank: ThisRank, part: Slice, passes: int, in_float64: bool, descriptor: int
    ) -> None:
        self._this_rank, self._part, self._passes = this_rank, part, passes
        self._in_float64, self._descriptor = in_float64, descriptor
        self._told: list[list[float]] = []
        self._draws = AlignedDraws(lambda: part)

    def begin(
        self, iterator: LoaderIterator, indices: Sequence[object], alike: Alike, seconds: int
    ) -> object:
        """The batch that the script gets. Whatever fails ends the process."""
        try:
            make_harmless(self._descriptor, seconds, self.end)
            return self._begun(iterator, indices, alike)
        except BaseException as error:
            self.failed(error)

    def _begun(self, iterator: LoaderIterator, indices: Sequence[object], alike: Alike) -> object:
        this_rank, training = self._this_rank, self._this_rank.training
        seams, roots = training.seams, training.roots
        torch.set_num_threads(1)  # OpenMP does not survive a fork
        if compiler.is_imported():
            torch.compiler.set_stance("force_eager")  # nothing is compiled for one step
        parameters = this_rank.parameters()
        optimizers: list[Any] = list(training.optimizers)  # whose method is replaced
        for optimizer in optimizers:
            optimizer.step = lambda closure=None, **_: closure() if closure is not None else None
        seams.replace(torch, "save", lambda _: lambda *args, **kwargs: self.end("the script saves a file"))
        for buffer, value in alike.statistics:  # before they are doubled, which makes new buffers
            buffer.data = value.to(buffer.dtype)  # in memory of its own
        if self._in_float64:
            _double(roots, parameters)
            double_all(seams)
        without_dropout(seams)
        seams.replace(torch.nn.functional, "batch_norm", self._around_batch_norm)
        for root in roots:
            quiet_recurrent(root)
        this_rank.communication.size = 1  # no communication
        this_rank.rng.share_all()
        set_rng_states(torch, alike.rng)
        samples = samples_of(dataset_of(iterator), indices)  # all: what one draws shifts the next's draws
        batch = collate_of(iterator)(samples[self._part.start : self._part.stop])
        batch = doubled(batch) if self._in_float64 else batch
        this_rank.slicer.put_in_place(self._part, batch)
        self._draws.__enter__()  # type: ignore[no-untyped-call]
        return batch

    def _around_batch_norm(self, original: Call) -> Call:
        def batch_norm(
            input: object,
            mean: object,
            var: object,
            weight: object = None,
            bias: object = None,
            training: bool = False,
            *scales: object,
            **more: object,
        ) -> object:
            if mean is None or var is None:
                self.end("batch norm keeps no running statistics")
            return original(input, mean, var, weight, bias, False, *scales, **more)

        return batch_norm

    # ---- the script goes on
    def backward(self, call: Callable[[], object]) -> object:
        """Runs a backward pass of the script. The last one ends the process."""
        parameters = self._this_rank.parameters()
        before = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        result = call()
        if self._this_rank.slicer.current is self._part:
            if all(parameter.grad is None for parameter in parameters):
                self.end("a backward pass leaves no gradient")
            self._draws.paused = True  # while the signs of the sketch are drawn, which belong to no sample
            self._told.append(sketch([parameter.grad for parameter in parameters]))
            self._draws.paused = False
            if len(self._told) == self._passes:
                self.end("")
        for parameter, old in zip(parameters, before, strict=True):
            if parameter.grad is None:
                parameter.grad = old
        return result

    def batch_asked(self) -> NoReturn:
        """The script asks for another batch: it is done with this one."""
        self.end("" if self._told else "no backward pass followed a batch")

    def failed(self, error: BaseException) -> NoReturn:
        """Something raised, in the script or here."""
        self.end(f"{type(error).__name__}: {error}")

    def end(self, why: str) -> NoReturn:
        """Write the result, or ``why`` there is none, and end the process."""
        told = {"why": " ".join(why.split())[:_REASON_CHARACTERS], "passes": self._told}
        written = memoryview(json.dumps(told).encode())
        while written:
            written = written[os.write(self._descriptor, written) :]
        os._exit(0)


def sketch(gradients: Sequence[torch.Tensor | None]) -> list[float]:
    """``WIDTH`` numbers for each gradient, sums of its elements by fixed random signs: the sketch of a sum is
    the sum of the sketches, and its size that of the gradient, to a few parts in ten. 0 for None.
    """
    found: list[float] = []
    for number, gradient in enumerate(gradients):
        if gradient is None:
            found += [0.0] * WIDTH
            continue
        flat = plain(gradient)
        generator = torch.Generator().manual_seed(number)
        padded = torch.zeros(-(-len(flat) // WIDTH) * WIDTH, dtype=torch.float64)
        padded[: len(flat)] = flat
        signs = torch.empty_like(padded).random_(2, generator=generator).mul_(2).sub_(1)
        found += (padded * signs).reshape(-1, WIDTH).sum(0).tolist()
    return found


def _double(roots: Sequence[torch.nn.Module], parameters: Sequence[torch.Tensor]) -> None:
    for root in roots:
        root.double()
    for parameter in parameters:  # those that belong to an optimizer alone
        if parameter.dtype == SINGLE:
            parameter.data = parameter.data.to(DOUBLE)
        parameter.grad = None
