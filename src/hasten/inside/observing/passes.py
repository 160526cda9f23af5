"""How many samples a step trains on if no loader says so: counted in the forward passes that its backward
passes belong to.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .batches import batch_length, elements_in, tensors_in
from .padding import is_matrix_of_whole_numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_MARK = "hasten: forward pass"  # key in the metadata of the graph's nodes, which lives as long as they do
_MOST_NODES = 4096  # of a graph that are searched for the passes it came from
_MARKED_OUTPUTS = 8  # of a pass
_MARKED_STEPS = 100  # after one whose backward pass had several forward passes before it


@dataclass(slots=True, eq=False)
class _Pass:
    root: int  # its id
    samples: int  # 0 if they are not known
    elements: int  # numbers in the tensors that went in
    given: weakref.ref[Tensor] | None  # the first tensor that went in
    again: bool = False  # what went in was computed since the root was called first: the same samples go on
    counted: bool = False


class Passes:
    """Counts one step's passes; ``take`` returns what went through them and begins the next step.

    A backward pass after a single forward pass belongs to it. After several, the graph decides: a policy
    asked for an action has no part in the loss of a batch. Samples count once if several passes share an
    input, if modules are called one after another, and if one is called on what it returned, as cells and
    solvers of differential equations do.
    """

    def __init__(self) -> None:
        self.waiting = 0  # forward passes of this step without a backward pass so far
        self._latest: _Pass | None = None
        self._called: set[int] = set()  # ids of roots, since the latest backward pass
        self._alone = 0  # steps in a row whose backward passes had one forward pass each
        self._samples = self._elements = 0
        self._unclear = self._unseen = False
        self._closure: tuple[int, int] | None = None  # of the largest backward pass inside an update

    def forward_ended(self, root: Module, time_first: bool, inputs: object, output: object) -> None:
        first = next(iter(tensors_in(inputs)), None)
        given = None if first is None else weakref.ref(first)
        samples = 0 if time_first else samples_through(inputs, output)
        again = id(root) in self._called and any(tensor.grad_fn is not None for tensor in tensors_in(inputs))
        self._latest = _Pass(id(root), samples, elements_in(inputs), given, again)
        self._called.add(id(root))
        self.waiting += 1
        if self._alone < _MARKED_STEPS:
            for tensor in tensors_in(output)[:_MARKED_OUTPUTS]:
                node: Any = tensor.grad_fn  # torch declares its metadata as a method
                if node is not None:
                    node.metadata[_MARK] = self._latest

    def update_begins(self) -> None:
        """A closure may compute the same batch several times: it counts once."""
        self._closure = 0, 0

    def update_ends(self) -> None:
        self._closure = None

    def backward_begins(self, losses: object) -> None:
        """``losses``: what is differentiated."""
        if not self.waiting:
            return
        found = self._found(losses)
        self._called.clear()
        for one in found:
            one.counted = True
        self.waiting = max(0, self.waiting - len(found))
        self._unseen = self._unseen or not found
        self._unclear = self._unclear or not found or not all(one.samples for one in found)
        samples, elements = _together(found)
        if self._closure is not None:
            before, self._closure = self._closure, max(self._closure, (samples, elements))
            samples, elements = self._closure[0] - before[0], self._closure[1] - before[1]
        self._samples += samples
        self._elements += elements

    def take(self) -> tuple[int, int]:
        """The samples of the step that ends, and the numbers in their tensors; 0 if unclear."""
        samples, elements = 0 if self._unclear else self._samples, 0 if self._unseen else self._elements
        self._alone += 1
        self._samples = self._elements = self.waiting = 0
        self._unclear, self._unseen, self._latest = False, False, None
        self._called.clear()
        return samples, elements

    def _found(self, losses: object) -> list[_Pass]:
        if self.waiting == 1 and self._latest is not None and not self._latest.counted:
            return [self._latest]
        marked, self._alone = self._alone < _MARKED_STEPS, -1
        return passes_behind(losses) if marked else []


def passes_behind(losses: object) -> list[_Pass]:
    """The marked passes, not counted yet, that are nearest in the graph of ``losses``; [] if the graph is
    too large.
    """
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors_in(losses)]
    seen = set(waiting)
    found: dict[int, _Pass] = {}
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        one = node.metadata.get(_MARK)
        if one is not None:
            if not one.counted:
                found[id(one)] = one
            continue
        if len(seen) > _MOST_NODES:
            return []
        further = [following for following, _ in node.next_functions if following not in seen]
        seen.update(further)
        waiting += further
    return list(found.values())


def _together(passes: list[_Pass]) -> tuple[int, int]:
    """Samples and elements of the root with the most; an input counts once."""
    of_roots: dict[int, tuple[int, int]] = {}
    known: set[tuple[int, int]] = set()
    begun = {one.root for one in passes if not one.again}
    for one in passes:
        if one.again and one.root in begun:
            continue
        tensor = one.given() if one.given is not None else None
        if tensor is not None and (one.root, id(tensor)) in known:
            continue
        if tensor is not None:
            known.add((one.root, id(tensor)))
        samples, elements = of_roots.get(one.root, (0, 0))
        of_roots[one.root] = samples + one.samples, elements + one.elements
    return max(of_roots.values(), default=(0, 0))


def samples_through(inputs: object, output: object) -> int:
    """How many samples went into and came out of a forward pass; 0 if rows may have been merged.

    A language model may return a row for each token of each sequence, as its loss takes them.
    """
    came, went = batch_length(inputs), batch_length(output)
    return came if went in (came, 0) or went == _tokens_in(inputs) else 0


def _tokens_in(inputs: object) -> int | None:
    """How many ids there are, if what went in first is a matrix of them; None if not."""
    first = next(iter(tensors_in(inputs)), None)
    return first.numel() if first is not None and is_matrix_of_whole_numbers(first) else None
