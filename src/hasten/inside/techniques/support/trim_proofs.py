"""What is known of a model whose calls are cut: until when it is trusted, and when it is compared again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from ...observing.padding import is_in_memory, rows_of
from ...seams import Args, Kwargs
from .padded_calls import Found, Kinds, Known, Restored
from .said import said_in
from .trimmed_rehearsal import Agreement, Rounding

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_FIRST = 3  # calls that are compared in any case
_WIDTHS = 3  # different ones that are, too
_GROWTH = 1.5  # of the number of calls until the next is compared
_SHARE = 0.005  # of the time that comparing may take after the first
_UNUSED = 2  # steps after which what no gradient came back to is not used by a loss

MOST_MODES = 12  # of a model
_MOST_HIDDEN = 4  # values of one tensor that hide what is cut

Mode = tuple[object, ...]
"""How a model is called: in another mode it may compute something else."""


def mode_of(
    torch: ModuleType, root: Module, records: bool, tensors: Sequence[Tensor], args: Args, kwargs: Kwargs
) -> Mode:
    """The mode of a call. ``records``: whether gradients are recorded. The model's own texts and flags, such
    as whether it trains, are part of the mode; its numbers are not, because they may be counters.
    """
    flags = tuple((name, value) for name, value in vars(root).items() if isinstance(value, (bool, str)))
    rows = rows_of([tensor for tensor in tensors if is_in_memory(tensor)])
    said = said_in(torch, (args, kwargs), rows)
    return flags, records, said, tuple((t.dtype, t.dim()) for t in tensors)


@dataclass(eq=False)
class Proven:
    """What was proven of one model in one mode. It is kept while the technique is off. Times in seconds."""

    evaluates: bool = False  # no gradients are recorded
    trains: bool = True  # gradients are recorded, and the model is in training mode
    why_not: str = ""
    known: Known = field(default_factory=Known)
    restored: Restored = frozenset()
    kinds: Kinds = ()
    calls: int = 0  # that could be cut
    cut: int = 0
    compared: int = 0
    off: float = 0.0
    rounding: Rounding | None = None
    set_up: float = 0.0
    watches: bool = False  # the gradients of the next output
    unconfirmed: int | None = None  # steps since an output was watched that has got no gradient yet
    _confirmed: bool = False  # a loss passes no gradient to padding
    _cut: frozenset[int] = frozenset()  # leads that were cut when the model was compared
    _widths: set[tuple[int, ...]] = field(default_factory=set)
    _later: float = 0.0
    _latest: float = 0.0
    _next: int = 0
    _began: float = field(default_factory=time.perf_counter)

    @property
    def may_cut(self) -> bool:
        """False if it is not known yet whether the loss reads padding."""
        return not self.restored or self._confirmed

    @property
    def is_old(self) -> bool:
        """Whether calls were cut for a while."""
        return self.cut > _FIRST and not self.evaluates

    def is_due(self, found: Found) -> bool:
        """Whether this call is to be compared."""
        if self.compared < _FIRST or not (found.is_known(self.known) and found.cut <= self._cut):
            return True
        is_new = tuple(found.widths.values()) not in self._widths and len(self._widths) < _WIDTHS
        elapsed = time.perf_counter() - self._began
        return is_new or (self.calls >= self._next and self._later + self._latest <= _SHARE * elapsed)

    def was_compared(self, found: Found, outcome: Agreement, seconds: float) -> None:
        """Note the outcome of a comparison, which took ``seconds``."""
        self.why_not = outcome.why_not
        before = {one for one in self.restored if one[2] in found.cut}
        if outcome.restored != before and found.cut <= self._cut:
            self.why_not = self.why_not or "what the model returns does not always have the same dimensions"
        if outcome.kinds != self.kinds and self.compared:
            self.why_not = self.why_not or "what the model returns is not always of the same kind"
        self.kinds = outcome.kinds
        self._confirmed = self._confirmed and outcome.restored <= self.restored
        self.restored |= outcome.restored
        self._cut |= found.cut
        if self.compared < _FIRST or len(self._widths) < _WIDTHS:
            self.set_up += seconds
        else:
            self._later += seconds
        self._latest = seconds
        self.compared += 1
        self._next = int(self.calls * _GROWTH) + 1
        self._widths.add(tuple(found.widths.values()))
        self.watches = True
        self.off, self.rounding = max(self.off, outcome.off), outcome.rounding or self.rounding
        self.known.add(found)
        if any(len(values) > _MOST_HIDDEN for values in self.known.hidden.values()):
            self.why_not = self.why_not or "a mask that the model is given keeps changing its kind"

    def gradient_came(self) -> None:
        """A gradient came to the output for sequences, and none to that for padding."""
        self.unconfirmed, self._confirmed = None, True

    def step_ended(self) -> None:
        if self.unconfirmed is not None:
            self.unconfirmed += 1
            if self.unconfirmed >= _UNUSED:
                self.gradient_came()
