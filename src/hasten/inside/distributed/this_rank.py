"""This worker as one of several ranks: all the hooks that make a script which knows of no ranks train as one.

The idea is https://docs.pytorch.org/docs/stable/notes/ddp.html, with the data taken care of as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ...records.ranks import Findings
from ..internals import loaders
from ..job import Ranks
from ..observing.backward_call import OF_AUTOGRAD, OF_TENSOR, read_call
from ..observing.hooks import Hooks
from ..observing.observer import Observer
from ..seams import Args, Call, Kwargs
from ..training import Training
from .averaging import Averaging
from .batch_norm import Part, SharedBatchNorm, average_running_statistics
from .communication import Communication
from .evaluation import SharedEvaluation
from .losses import MOST, losses_at, make_global
from .nan_losses import NanOfRanks
from .parting import Fail, Parting
from .rng_states import RngStates, seed_of
from .script_draws import Drawing
from .slicing import Slicer
from .spot_checks import SpotChecks, can_check
from .step_apart import StepApart
from .trained_parameters import TrainedParameters
from .watch import Watch
from .watched import Watched, parameter_bits

if TYPE_CHECKING:
    import torch

_NAME = "ranks"


class ThisRank:
    """Made when the script has imported torch, and all ranks with it. ``fail`` ends the process."""

    def __init__(
        self,
        training: Training,
        hooks: Hooks,
        observer: Observer,
        ranks: Ranks,
        findings: Findings,
        fail: Fail,
        checked: bool = False,
    ) -> None:
        """``checked``: now and then a step is compared with that of one process."""
        self.ranks, self.findings = ranks, findings
        self.training, self._observer, self.fail = training, observer, fail
        self.communication = Communication(ranks)
        self.slicer = Slicer(ranks.rank, ranks.world_size, findings)
        self.rng = RngStates(training.torch, ranks.rank)
        self.parameters = TrainedParameters(training)
        self.averaging = Averaging(self.communication, self.parameters)
        self.evaluation = SharedEvaluation(self.communication, lambda: self.slicer.in_step, fail)
        apart = not ranks.sync_batch_norm
        watched = Watched(training, self.rng, self.parameters, apart)
        self.watch = Watch(watched, self.communication, ranks.hosts)
        self._parting = Parting(self.communication, fail)
        self._nan = NanOfRanks(self.communication, ranks.hosts)
        self.checks = SpotChecks(self) if checked and can_check(findings.device) else None
        self.steps, self._trained = 0, False  # optimizer steps that have ended; since the last evaluation
        self._met: set[int] = set()  # roots, by id, that were trained
        self._models = 0  # a fingerprint of their first parameters
        self._last_optimizer = -1
        self._passes, self._inside = 0, False  # backward passes since an optimizer's step; within one
        hooks.on_batch.append(self._batch_came)

    def install(self) -> None:
        """Call it after all others that wrap the same calls: ours must be the outermost."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        torch, training = self.training.torch, self.training
        training.forward_wrappers[_NAME] = self._forward
        seams = training.seams
        seams.on_undo(register_optimizer_step_post_hook(self._stepped).remove)
        seams.replace(torch.Tensor, "backward", partial(self._around_backward, OF_TENSOR))
        seams.replace(torch.autograd, "backward", partial(self._around_backward, OF_AUTOGRAD))
        self.rng.watch_seeding(seams)
        Drawing(self.rng, lambda: self.slicer.latest).install(seams)
        if self.ranks.sync_batch_norm:
            self.share_batch_norm()
        self._install_in_loaders()

    def share_batch_norm(self) -> None:
        """Batch norm takes the statistics of the global batch."""
        shared = SharedBatchNorm(self.communication, self._part, self.training.plays_back)
        self.training.seams.replace(self.training.torch.nn.functional, "batch_norm", shared.around)

    def _part(self) -> Part:
        current = self.slicer.current
        return Part(counts=current is None or current.counts, weight=self.weight())

    # ---- the data
    def _install_in_loaders(self) -> None:
        replace, iterators = self.training.seams.replace, loaders.iterator_kind()
        replace(self.training.torch.utils.data.DataLoader, "__iter__", self._around_iter)
        replace(iterators, "__init__", self._around_making)
        replace(iterators, loaders.RESET, self._around_reset)
        replace(iterators, loaders.NEXT_INDEX, self._around_order)
        replace(loaders.iterator_in_process(), loaders.NEXT_DATA, self._around_fetch)
        if self.checks is not None:
            replace(iterators, loaders.RESET, self.checks.around_reset)
            replace(iterators, "__next__", self.checks.around_next)

    def _around_iter(self, original: Call) -> Call:
        def __iter__(loader: torch.utils.data.DataLoader[object]) -> object:
            with self.rng.shared():
                return original(loader)

        return __iter__

    def _around_making(self, original: Call) -> Call:
        def __init__(iterator: loaders.LoaderIterator, *args: object, **kwargs: object) -> None:
            original(iterator, *args, **kwargs)
            # from the workers' own generators
            loaders.put_base_seed(iterator, seed_of(self.rng.rank, loaders.base_seed(iterator)))

        return __init__

    def _around_reset(self, original: Call) -> Call:
        def _reset(iterator: loaders.LoaderIterator, *args: object, **kwargs: object) -> object:
            self.slicer.begins(iterator)
            return original(iterator, *args, **kwargs)

        return _reset

    def _cuts(self, iterator: loaders.LoaderIterator) -> bool:
        return self.slicer.cuts(iterator, self.training.torch.is_grad_enabled(), self.training.in_eval)

    def _around_order(self, original: Call) -> Call:
        def _next_index(iterator: loaders.LoaderIterator) -> object:
            with self.rng.shared():
                indices = original(iterator)
            if self._cuts(iterator):
                return self.slicer.cut(iterator, indices)
            return indices

        return _next_index

    def _around_fetch(self, original: Call) -> Call:
        def _next_data(iterator: loaders.LoaderIterator) -> object:
            if not self._cuts(iterator):
                return original(iterator)
            with self.rng.own():
                return original(iterator)

        return _next_data

    def _batch_came(self, batch: object, iterator: loaders.LoaderIterator) -> None:
        self.slicer.batch_came(batch, iterator)
        if self.slicer.is_cut(iterator) and self.training.has_optimizers:
            self._training_begins()  # a script may draw numbers for its samples before it calls its model

    # ---- the model
    def _forward(self, root: torch.nn.Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        played = self.training.plays_back()  # what comes of it is not used
        if self.training.torch.is_grad_enabled() and not played:
            self._pass_begins(root, args, kwargs)
        elif not (played or root.training or self.training.is_helper(root)):
            return self._evaluate(root, call, args, kwargs)
        return call(*args, **kwargs)

    def _pass_begins(self, root: torch.nn.Module, args: Args, kwargs: Kwargs) -> None:
        if id(root) not in self._met:
            self._meet(root)
        self.slicer.forward_begins((args, kwargs))
        self._trained = True

    def pass_played(self, root: torch.nn.Module, args: Args, kwargs: Kwargs) -> None:
        """A pass of ``root`` whose result is played back: no other rank is asked for anything."""
        if self.training.torch.is_grad_enabled():
            self._pass_begins(root, args, kwargs)

    def _evaluate(self, root: torch.nn.Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        if self._trained:
            self._trained = False
            self.evaluation.trained()
            if not self.ranks.sync_batch_norm:
                average_running_statistics(self.communication, self.training.roots)
        return self.evaluation.run(root, call, args, kwargs)

    def _meet(self, root: torch.nn.Module) -> None:
        """``root`` is about to be trained for the first time."""
        self._met.add(id(root))
        self._models = zlib.crc32(repr(parameter_bits(root)).encode(), self._models)
        self._training_begins()

    def _training_begins(self) -> None:
        self.rng.begin()

    # ---- the backward pass
    def _stepped(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        self._last_optimizer, self._passes = self.training.number_of(optimizer), 0
        self.steps += 1

    def _around_backward(self, names: Sequence[str], original: Call) -> Call:
        def backward(*args: object, **kwargs: object) -> object:
            if self._inside:
                return original(*args, **kwargs)
            if self._apart is not None:
                return self._apart.backward(lambda: original(*args, **kwargs))
            if self.training.plays_back():
                result = original(*args, **kwargs)
                self._passes += bool(self.training.has_optimizers)
                self.slicer.backward_ended()
                return result
            call = read_call(names, args, kwargs)
            losses = losses_at(call.given)
            self._inside = True
            try:
                self.averaging.begin((self._last_optimizer, self._passes), self.weight())
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    self.averaging.give_up()
                    raise
                self._pass_ended()
                self._end_pass(losses, call.keeps_graph)
                self.slicer.backward_ended()
            finally:
                self._inside = False
            return result

        return backward

    @property
    def _apart(self) -> StepApart | None:
        """In a fork, where no training goes on."""
        return self.checks.apart if self.checks is not None else None

    def weight(self) -> float:
        """The weight of this rank's loss and gradient in the sum over all ranks."""
        return self.slicer.weight(self.findings.loss)

    def _pass_ended(self) -> None:
        """A backward pass has ended, and nothing was averaged yet. For subclasses."""

    def _end_pass(self, losses: list[torch.Tensor], kept: bool) -> None:
        """``kept``: the graph may be gone through again, and is not to be touched."""
        self._passes += bool(self.training.has_optimizers)
        sums = self._sums(losses)
        if not kept:
            make_global(losses, sums)
        self._observer.losses_are(sums[: len(losses)])

    def _sums(self, losses: list[torch.Tensor]) -> list[float]:
        """End the pass; returns the losses over all ranks."""
        weight = self.weight()
        values = [weight * float(loss.detach()) for loss in losses]
        values += [0.0] * (MOST - len(values))
        drawn = f"{self.slicer.fingerprint} {self._models} {len(losses)}"
        try:
            prints, wishes = self.watch.told()
            checks = self.checks.told() if self.checks is not None else []
            sums = self.averaging.end(zlib.crc32(drawn.encode()), [*values, *wishes, *checks], prints)
            rest = MOST + len(wishes)
            why = self.watch.heard(self.averaging.unequal, sums[MOST:rest], self.steps)
            if self.checks is not None and not why:
                why = self.checks.heard(sums[rest:])
        except Exception as error:
            self._cannot_end(error)
        if why:
            self._came_apart(why)
        self._nan.heard(sums[:MOST], values, self.steps)
        return sums[:MOST]

    def _cannot_end(self, error: Exception) -> NoReturn:
        self._parting.cannot_go_on(error, self.steps)

    def _came_apart(self, why: str) -> None:
        """Stop because the ranks have come apart. All ranks know of it, and all call this."""
        self._parting.together(why)

    def script_failed(self, error: BaseException) -> None:
        """The script raised an exception. In a fork that is reported as the fork's result."""
        if self._apart is not None:
            self._apart.failed(error)

    def training_ends(self) -> None:
        """The script has ended."""
        if self._apart is not None:
            self._apart.batch_asked()
        if self.averaging.passes:
            self._parting.meet(self.steps)
            why = self.watch.compare_all(self.steps)
            if self.checks is not None and not why:
                why = self.checks.finish()
            if why:
                self._came_apart(why)
