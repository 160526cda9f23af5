"""The training as techniques see it: the trained modules, their optimizers, and where techniques hook in."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .living import Living
from .seams import Args, Call, Kwargs, Seams
from .structures import tensors_of

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

    from .distributed.this_rank import ThisRank

ForwardWrapper = Callable[["Module", Call, Args, Kwargs], object]
"""(root, call, args, kwargs) -> output: wraps a root's forward pass and must call ``call``."""
FetchProvider = Callable[[Any, Sequence[Any], Call], "list[object] | None"]
"""(dataset, indices, collate function) -> samples, or None to let the dataset answer."""
BatchProvider = Callable[[Any, Sequence[Any], Call], object]
"""(dataset, indices, collate function) -> the batch that the collate function would make, in fresh memory, or
None. Asked before any FetchProvider.
"""


EvaluationDeparture = Callable[["Module", Args, Kwargs], "float | None"]
"""(root, args, kwargs) -> how far what the root returns for this call in an evaluation differs from full
precision, relative; None if it is computed in full precision.
"""


class NotApplicable(Exception):
    """A technique found on the running training that it cannot take effect. The message says why."""


class Training:
    """What techniques may touch. Roots and optimizers are held weakly: the script decides when a model is
    freed.
    """

    def __init__(self, torch: ModuleType, seams: Seams, available_bytes: int) -> None:
        self.torch = torch
        self.seams = seams
        self.available_bytes = available_bytes
        self.forward_wrappers: dict[str, ForwardWrapper] = {}
        self.fetch_providers: dict[str, FetchProvider] = {}
        self.batch_providers: dict[str, BatchProvider] = {}
        self.evaluation_departures: dict[str, EvaluationDeparture] = {}  # of lowered evaluations
        self.before_passes: Callable[[], None] | None = None  # before each root's pass that records gradients
        self.on_inputs: Callable[[object], None] | None = None  # what such a pass is given, by the script
        self.follow: ForwardWrapper | None = None  # who keeps checkpoints: around all that a root's pass does
        self.plays_back: Callable[[], bool] = bool  # a restarted script, to its step
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext  # of no interest to that one
        self.before_scripting: dict[str, Callable[[Module], None]] = {}  # torch.jit.script compiles this one
        self.while_scripting: dict[str, Callable[[], AbstractContextManager[None]]] = {}  # compiles anything
        self.before_updates: dict[str, Callable[[Optimizer], None]] = {}  # of a parameter in a backward pass
        self.after_updates: dict[str, Callable[[], None]] = {}  # an optimizer has changed weights, anywhere
        self.after_steps: dict[str, Callable[[], None]] = {}  # called at the end of every step
        self.at_end: dict[str, Callable[[], None]] = {}  # called when the script has ended: may fail it
        self.datasets: Living[None] = Living()  # that a loader read from
        self.training_datasets: Living[None] = Living()  # those whose samples reached a training step
        self.stepped: Living[None] = Living()  # optimizers that have made a step
        self.kept: dict[str, Any] = {}  # of techniques that are off: caches, and what could not be undone
        self.obstacles: dict[str, None] = {}  # why the training cannot be followed
        self.averages_gradients = False  # over ranks, by the script's wrapper (DistributedDataParallel)
        self.this_rank: ThisRank | None = None  # if this process is one of several ranks
        self.records_evaluations = False  # a root in eval mode was called with gradients enabled
        self.modes_without_gradients: set[bool] = set()  # of roots called so: True is training mode
        self.differentiates_gradients = False  # create_graph=True
        self.makes_loaders = False  # a DataLoader was made, if not read
        self.steps_within_updates = False  # each evaluation of a closure is a step
        self.steps_in_backward = False  # an optimizer's step was called within a backward pass
        self.own_cpus: frozenset[int] = frozenset()  # that this process, one of several ranks, was given
        self.sample_folder = ""  # where samples may be kept for other processes and runs; "" for nowhere
        self.samples_for_later = True  # runs, and not only for processes at the same time
        self.in_a_trial = False  # a process of a tune of which steps are timed
        self.sample_seconds = 300.0  # that making samples to be kept may hold up the training
        self.made_of: Callable[[], str] = str  # tells which script runs, of which files, how
        self.own_files: Callable[[], list[str]] = list  # the script's, as far as it has imported them
        self.steps = 0  # that have ended
        self.changed = False  # a root or an optimizer came since this was cleared
        self._innermost = ""  # the wrapper around roots' own calls, if there is one
        self.roots_added = self.optimizers_added = 0  # in all
        self._roots: dict[int, weakref.ref[Module]] = {}  # living ones, by how many came before
        self._helpers: Living[None] = Living()  # roots that were added as such
        self._untrained: Living[tuple[tuple[int, int], bool]] = Living()  # and for which parts
        self._optimizers: list[weakref.ref[Optimizer]] = []  # living ones
        self._serials: list[int] = []  # of these, counted from 0

    @property
    def roots(self) -> list[Module]:
        """The trained modules that are alive, and the helpers, in order of their first forward pass."""
        return [root for ref in list(self._roots.values()) if (root := ref()) is not None]

    def trained_roots(self) -> list[Module]:
        """Those that an optimizer trains that is alive; where none is alive, that may be trained."""
        return [root for root in self.roots if not self.is_untrained(root)]

    def in_eval(self) -> bool:
        """Whether there are roots, and all of them are in eval mode. The mode of those that are not trained,
        which a script may never change, says nothing unless there are no others.
        """
        roots = self.trained_roots() or self.roots
        return bool(roots) and not any(root.training for root in roots)

    def evaluates(self) -> bool:
        """Whether all trained modules are in eval mode; not before the first of them is called."""
        trained = self.trained_roots()
        return bool(trained) and not any(root.training for root in trained)

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers that are alive, in order of creation."""
        return [optimizer for ref in self._optimizers if (optimizer := ref()) is not None]

    def owned(self) -> set[int]:
        """The ids of the optimizers' parameters."""
        return {id(p) for o in self.optimizers for group in o.param_groups for p in group["params"]}

    def is_trained(self, root: Module) -> bool:
        """Whether an optimizer that is alive trains it; where none is alive, whether it may be trained."""
        owned = self.owned()
        return any(id(p) in owned if owned else p.requires_grad for p in root.parameters())

    def leads_to(self, given: object) -> bool:
        """Whether what is trained is given to a module, or made by another one that is: a picture that is
        optimised through a frozen network, or one that a loss looks at through it.
        """
        return any(tensor.requires_grad for tensor in tensors_of(self.torch, given))

    def is_untrained(self, root: Module) -> bool:
        """As ``is_trained`` says, which takes longer."""
        now = self.parts_added, len(self._optimizers)
        known = self._untrained.get(root)
        if known is None or known[0] != now:
            known = now, not self.is_trained(root)
            self._untrained.put(root, known)
        return known[1]

    def is_helper(self, root: Module) -> bool:
        """Whether it was added as a helper, and is not trained since."""
        return root in self._helpers and self.is_untrained(root)

    def teaches(self, root: Module) -> bool:
        """Whether a pass of it that records no gradients is part of a step of others: it is not trained, and
        one that is trained is in training mode.
        """
        return self.is_untrained(root) and any(other.training for other in self.trained_roots())

    def came_since(self, roots: int, optimizers: int) -> tuple[list[Module], list[Optimizer]]:
        """The living ones that appeared after this many others."""
        late = [ref for number, ref in list(self._roots.items()) if number >= roots]
        found = [root for ref in late if (root := ref()) is not None]
        return found, [one for serial, one in self.numbered_optimizers() if serial >= optimizers]

    def numbered_optimizers(self) -> list[tuple[int, Optimizer]]:
        """The living ones, each with its serial."""
        numbered = zip(self._serials, self._optimizers, strict=True)
        return [(serial, optimizer) for serial, ref in numbered if (optimizer := ref()) is not None]

    def serial_of(self, number: int) -> int:
        """The unique serial of the optimizer at that index among ``optimizers``. -1 for none."""
        return self._serials[number] if 0 <= number < len(self._serials) else -1

    @property
    def has_optimizers(self) -> bool:
        """Whether any is alive."""
        return bool(self._optimizers)

    def add_root(self, module: Module, helps: bool = False) -> None:
        """Add a trained module, which was found when it was first called. Or a helper, that is, one that
        takes part in the steps of others: a frozen network that a loss looks through, or a teacher.
        """
        if helps:
            self._helpers.put(module, None)
        number = self.roots_added
        self._roots[number] = weakref.ref(module, lambda _: self._roots.pop(number, None))
        self.roots_added += 1
        self.changed = True

    def forget_roots(self, forgotten: Sequence[Module]) -> None:
        """They were called before there was anything to train; training calls them again."""
        ids = set(map(id, forgotten))
        self._roots = {number: ref for number, ref in self._roots.items() if id(ref()) not in ids}

    def number_of(self, optimizer: Optimizer) -> int:
        """The optimizer's index among ``optimizers``; a new one is added."""
        for number, ref in enumerate(self._optimizers):
            if ref() is optimizer:
                return number
        self.add_optimizer(optimizer)
        return len(self._optimizers) - 1

    def add_optimizer(self, optimizer: Optimizer) -> None:
        """Add an optimizer that the script has created, once."""
        if all(ref() is not optimizer for ref in self._optimizers):
            self._optimizers.append(weakref.ref(optimizer, self._optimizer_died))
            self._serials.append(self.optimizers_added)
            self.optimizers_added += 1
            self.changed = True

    def _optimizer_died(self, ref: weakref.ref[Optimizer]) -> None:
        number = self._optimizers.index(ref)
        del self._optimizers[number], self._serials[number]

    @property
    def parts_added(self) -> int:
        """Number of roots and optimizers, in all."""
        return self.roots_added + self.optimizers_added

    def wrap_innermost(self, name: str, wrapper: ForwardWrapper) -> None:
        """Install ``wrapper`` beneath all others: the call that it wraps is the root's own."""
        self._innermost = name
        self._put_first({name: wrapper})

    def wrap_inside(self, name: str, wrapper: ForwardWrapper) -> None:
        """Install ``wrapper`` beneath all others but the innermost."""
        inner = self.forward_wrappers.get(self._innermost)
        self._put_first({**({} if inner is None else {self._innermost: inner}), name: wrapper})

    def _put_first(self, first: dict[str, ForwardWrapper]) -> None:
        others = {name: one for name, one in self.forward_wrappers.items() if name not in first}
        self.forward_wrappers.clear()
        self.forward_wrappers.update({**first, **others})

    def forget(self) -> None:
        """Remove all wrappers and providers."""
        self.forward_wrappers.clear()
        self.fetch_providers.clear()
        self.batch_providers.clear()
        self.evaluation_departures.clear()
        self.before_scripting.clear()
        self.while_scripting.clear()
        self.after_updates.clear()
        self.after_steps.clear()

    def step_ended(self) -> None:
        """Run what techniques do between two steps."""
        if self.after_steps:
            for act in list(self.after_steps.values()):
                act()

    def script_ends(self) -> None:
        """Finish what techniques do in the background for the script. Raises what the script would have
        raised if it had done so itself.
        """
        for finish in list(self.at_end.values()):
            finish()

    def forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        """``call(*args, **kwargs)`` with every installed wrapper around it."""
        for wrapper in self.forward_wrappers.values():
            call = _Wrapped(wrapper, root, call)
        return call(*args, **kwargs)


class _Wrapped:
    """One wrapper around a call; a class rather than a closure, so that each loop turn binds its own
    values.
    """

    __slots__ = ("_call", "_root", "_wrapper")

    def __init__(self, wrapper: ForwardWrapper, root: Module, call: Call) -> None:
        self._wrapper, self._root, self._call = wrapper, root, call

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._wrapper(self._root, self._call, args, kwargs)
