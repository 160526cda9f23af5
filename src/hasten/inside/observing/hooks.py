"""Hooks the observer into torch: the seams around forward, backward, the optimizer and the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..internals.modules import calls_compiled, put_call
from ..process.forked_children import spare_cuda_objects
from ..seams import Call
from ..training import Training
from .backward_call import OF_AUTOGRAD, OF_GRAD, OF_TENSOR, read_call
from .called_modules import watch_calls
from .data_seams import watch_data
from .direct_calls import DirectCalls
from .gpu_pace import Pace
from .gpu_phases import Marks
from .loaders import Loaders
from .observer import Observer, clock
from .obstacles import called_directly, may_help, obstacle_at, wraps_for_ranks
from .operators import OperatorsSeen
from .padding import PaddingSeen
from .passing import PassingRoots
from .scripting import watch_scripting
from .slot import ForwardSlot, has_slot, take_out
from .updates import Updates

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

    from ..internals.loaders import LoaderIterator


class Hooks:
    """All seams of one worker. ``on_root`` is called when a root was found, before its first forward pass
    runs. ``timed``: time single steps on a GPU; ``closely``: also their phases, at about 20 us a step.

    Code that runs in every step catches its own failures instead of using ``Seams.watching``: one call less.
    """

    def __init__(
        self,
        training: Training,
        observer: Observer,
        on_root: Callable[[], None],
        timed: bool = True,
        closely: bool = False,
    ) -> None:
        self.loaders = Loaders(training, holds=closely)
        self.padding = PaddingSeen()
        self.operators = OperatorsSeen()
        self._training = training
        self._observer = observer
        self._on_root = on_root
        self.on_optimizer: Callable[[], None] = lambda: None  # one was created
        self._timed, self._closely = timed, closely
        self.on_batch: list[Callable[[object, LoaderIterator], None]] = []  # (batch, where it came from)
        self.before_samples: list[Callable[[], None]] = []  # a loader is about to make some
        self._stop_discovery: Callable[[], None] | None = None
        self._trains = False  # whether any backward pass was seen
        self._updated = False  # whether there was a step since the latest optimizer came, or a compiled model
        self._obstacles: list[str] = []  # found where a root was
        self._uncalled: dict[int, set[int]] = {}  # serial of an optimizer -> ids of its parameters
        self._passing = PassingRoots()
        self._direct = DirectCalls(training, observer)

    def install(self) -> None:
        spare_cuda_objects(self._training.torch)
        self._training.seams.on_undo(self._take_slots_out)
        watch_scripting(self._training)
        self._watch_optimizers()
        self._discover_roots()
        self._watch_backward()
        watch_data(self._training, self._observer, self.loaders, self.on_batch, self._samples_come)

    # ---- optimizers
    def _watch_optimizers(self) -> None:
        torch, training, direct = self._training.torch, self._training, self._direct
        seams = training.seams
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        updates = Updates(training, self._observer, direct, self._look_again)

        @seams.watching
        def came(optimizer: Optimizer) -> None:
            if not self._begun:
                self._forget_roots()
            training.add_optimizer(optimizer)
            self._updated = False
            self._passing.optimizer_came()
            self._discover_roots()
            direct.look()
            self.on_optimizer()

        def initialised(original: Call) -> Call:
            def __init__(optimizer: Optimizer, *args: object, **kwargs: object) -> None:
                original(optimizer, *args, **kwargs)
                came(optimizer)

            return __init__

        seams.replace(torch.optim.Optimizer, "__init__", initialised)
        seams.on_undo(register_optimizer_step_pre_hook(updates.begins).remove)
        seams.on_undo(register_optimizer_step_post_hook(updates.ends).remove)

    # ---- roots
    def _discover_roots(self) -> None:
        """Watch every module call until all parameters of optimizers belong to known roots, and one steps."""
        before, self._uncalled = self._uncalled, {}  # drops those that are gone
        for serial, optimizer in self._training.numbered_optimizers():
            found = before.get(serial)
            if found is None:
                found = {id(p) for group in optimizer.param_groups for p in group["params"]}
            self._uncalled[serial] = found
        if self._stop_discovery is not None:
            return
        self._stop_discovery = watch_calls(
            self._training, self._observer, self._consider, self._consider_teacher
        )

    @property
    def _begun(self) -> bool:
        """Whether there is something to train, as far as can be seen."""
        return self._training.has_optimizers or self._trains

    def _look_again(self, optimizer: Optimizer) -> None:
        """After each update: was what trained there made for one pass, and is the model within it?"""
        self._updated = True
        left_behind = self._passing.left_behind(optimizer, self._training)
        if left_behind:
            serial = self._training.serial_of(self._training.number_of(optimizer))
            self._uncalled[serial] = self._uncalled.get(serial, set()) | left_behind
            self._discover_roots()
        self._stop_if_all_found()

    def _consider(self, module: Module, given: object) -> None:
        training = self._training
        if wraps_for_ranks(training.torch, module):
            training.averages_gradients = True
            return  # the model inside is the trained one; it is called next
        if next(module.parameters(), None) is None or module in self._passing:
            return
        held = {id(p) for p in module.parameters()}
        for uncalled in self._uncalled.values():
            uncalled -= held
        if not has_slot(module):
            self._consider_root(module, given)
        self._stop_if_all_found()

    def _consider_root(self, module: Module, given: object) -> None:
        training = self._training
        if not self._begun:
            outer, _ = called_directly(training.torch, module)
            if outer is not None:  # this call of it goes unseen; later ones are sent through torch's
                self._direct.called(type(outer))
                module = outer
                if has_slot(module):
                    return
        owned = training.owned()
        mine = {id(p) for p in module.parameters() if p.requires_grad}
        known = any(module is root for root in training.roots)
        trained = mine & owned if owned else mine
        if known or not (trained or training.leads_to(given)):
            if not mine:  # a frozen teacher needs no ``torch.no_grad``
                self._consider_teacher(module)
            return
        helps = not trained and bool(training.trained_roots())
        if helps and not may_help(training.torch, module):
            return
        if not self._begun:  # its parts may have been tried out; those that are trained are called again
            held = {id(p) for p in module.parameters()}
            self._forget([r for r in training.roots if held.issuperset(map(id, r.parameters()))])
        self._add_root(module, trained, helps)
        if any(map(calls_compiled, module.modules())):  # in this call: what is watched would be compiled, too
            self._updated = True
            self._direct.rest()

    def _consider_teacher(self, module: Module) -> None:
        """Its pass before the end of the first step records no gradients, and it is not trained itself."""
        training = self._training
        if self._updated or not training.has_optimizers or not training.is_untrained(module):
            return
        known = has_slot(module) or module in self._passing or next(module.parameters(), None) is None
        if not known and not training.evaluates() and may_help(training.torch, module):
            self._add_root(module, set(), helps=True)

    def _add_root(self, module: Module, trained: set[int], helps: bool) -> None:
        training = self._training
        training.add_root(module, helps)  # before its slot is put in, which is taken out of roots alone
        self._passing.came(module, trained)
        obstacle = obstacle_at(training.torch, module)
        if obstacle:
            training.obstacles[obstacle] = None
            self._obstacles.append(obstacle)
        else:
            put_call(module, ForwardSlot(module, training, self._observer, self.loaders, self.padding))
        gpus = {p.device for root in training.roots for p in root.parameters() if p.device.type == "cuda"}
        if gpus and self._timed:
            self._observer.keep_pace = Pace(training.torch.cuda, gpus)
            if self._closely:
                self._observer.marks = Marks(training.torch.cuda, min(gpus, key=str))
        self._on_root()

    def _forget_roots(self) -> None:
        """A script may try out parts of its model before it has an optimizer, as a whole or layer by layer:
        to print shapes, or to create lazy layers. What hinders us there need not do so in the training.
        """
        while self._obstacles:
            self._training.obstacles.pop(self._obstacles.pop(), None)
        self._direct.forget()
        self._forget(self._training.roots)

    def _forget(self, roots: Sequence[Module]) -> None:
        for root in roots:
            take_out(root)
        self._training.forget_roots(roots)

    def _take_slots_out(self) -> None:
        for root in self._training.roots:
            take_out(root)

    def _stop_if_all_found(self) -> None:
        if self._stop_discovery is not None and self._updated and self._all_found():
            self._stop_discovery()
            self._stop_discovery = None

    def _all_found(self) -> bool:
        """Whether each parameter of the optimizers, if there are any, belongs to a module that was called
        since its optimizer was created. Until then, a part of a model that is trained later may be called
        alone.
        """
        alive = [serial for serial, _ in self._training.numbered_optimizers()]
        return bool(alive) and not any(self._uncalled.get(serial) for serial in alive)

    # ---- backward
    def _watch_backward(self) -> None:
        torch, training, observer = self._training.torch, self._training, self._observer
        seams, loaders, is_tensor = training.seams, self.loaders, torch.is_tensor

        def watched(names: Sequence[str], original: Call) -> Call:
            def backward(*args: object, **kwargs: object) -> object:
                if observer.in_backward or observer.in_forward or seams.given_up:
                    return original(*args, **kwargs)
                call = read_call(names, args, kwargs)
                if call.creates_graph:
                    training.differentiates_gradients = True
                if call.creates_graph and names is OF_GRAD:  # a term of the loss, or an inner step
                    began = clock()
                    result = original(*args, **kwargs)
                    observer.differentiated(clock() - began)
                    return result
                began, losses, failed = 0.0, [], True
                self._trains = True
                try:
                    if loaders.perhaps is not None:
                        loaders.backward_begins()
                    elif loaders.latest is not None and not observer.saw_forward:
                        loaders.batch_trained()
                    given = call.given
                    if self._closely and self.operators.wants_more:
                        self.operators.look(given)
                    began = observer.backward_begins()
                    if observer.passes.waiting:
                        observer.passes.backward_begins(given)
                    for loss in given if isinstance(given, (list, tuple)) else (given,):
                        if is_tensor(loss) and loss.numel() == 1:
                            losses.append(loss.item() if loss.is_cpu else kept(loss))
                except Exception as error:
                    seams.give_up(error)
                try:
                    result = original(*args, **kwargs)
                    failed = False
                    return result
                finally:
                    if not seams.given_up:
                        try:
                            observer.backward_ends(began, losses)
                            if not (failed or training.has_optimizers):
                                observer.step_ends(-1)
                        except Exception as error:
                            seams.give_up(error)

            return backward

        seams.replace(torch.Tensor, "backward", partial(watched, OF_TENSOR))
        seams.replace(torch.autograd, "backward", partial(watched, OF_AUTOGRAD))
        seams.replace(torch.autograd, "grad", partial(watched, OF_GRAD))

    # ---- data
    def _samples_come(self) -> None:
        for notice in self.before_samples:
            notice()


def kept(loss: Tensor) -> Tensor:
    """A copy that nothing changes later. Does not wait for a GPU."""
    return loss.detach().clone()
