"""Columns that are padding in every sequence of a batch are cut off before the model computes them, and its
output for each position is extended to the width that the script expects. Widths are rounded up to a
multiple, so that there are few shapes. The script's own tensors stay as they are: its batches, its loss, its
output.

It helps if sequences are padded to a fixed length (``padding="max_length"``) and most are much shorter. It
does nothing if batches are already padded to their longest sequence, or packed. A loss that the script itself
computes from a value for each position still takes all of them.

A model is trusted only as far as it was seen to compute the same without padding. That is tested first on
several batches of different widths, each also with only its shortest sequence, and again as training goes on,
for at most 0.5% of the time. A model that pools over positions without a mask, takes the last position or
convolves over the end of a sequence fails that, and is left alone. If it returns a value for each position,
the loss must pass no gradient to those of padding; these then repeat the last computed one, and evaluations,
whose metrics might count them, are left alone. With dropout, masks of other shapes are drawn: then the risk
is ``draws``.

Source: https://huggingface.co/docs/transformers/pad_truncation
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ...saying import say
from ..internals.modules import calls_compiled, is_compiled
from ..observing.padding import MULTIPLE
from ..seams import Args, Call, Kwargs
from ..structures import tensors_of
from ..training import NotApplicable, Training
from .base import NO_MODULE, Risk, Technique, conflicting
from .support.padded_calls import Found, cut, find, kinds_of, narrowed, restore
from .support.trim_proofs import MOST_MODES, Mode, Proven, mode_of
from .support.trimmed_rehearsal import rehearse

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_LARGEST = 1024
_LEAST_PADDING = 0.05  # of the columns


class PadTrim(Technique):
    name = "pad_trim"
    summary = "columns that are padding in all of a batch are not computed"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True
    conflicts = conflicting(
        compile="a compiled model would be compiled anew for each width",
        processes="each process would find other widths in its part of a batch",
    )

    def __init__(self) -> None:
        self._torch: Any = None
        self._multiple = MULTIPLE
        self._proven: weakref.WeakKeyDictionary[Module, dict[Mode, Proven]] = weakref.WeakKeyDictionary()
        self._calls = self._cut = 0
        self._columns = self._all_columns = 0
        self._why_not: dict[str, None] = {}
        self._was_wrong = False  # of a model whose calls were cut

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        return "draws" if any(root.dropout for root in facts.observation.roots) else "exact"

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        reasons = []
        if not seen.roots:
            reasons.append(NO_MODULE)
        if seen.padding is not None and seen.padding < _LEAST_PADDING:
            reasons.append(
                f"{seen.padding:.0%} of the columns of sequences are padding in all of a batch"
                if seen.padding
                else f"no padding beyond multiples of {MULTIPLE} was seen in what goes into the model"
            )
        if "pack_padded_sequence" in seen.uses:
            reasons.append("the script packs its sequences, so padding is not computed")
        if "compile" in seen.uses or any(root.compiled for root in seen.roots):
            reasons.append("the script compiles its model, which would be compiled anew for each width")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        return [{"multiple": MULTIPLE}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        multiple = settings.get("multiple", MULTIPLE)
        if not isinstance(multiple, int) or isinstance(multiple, bool) or not 1 <= multiple <= _LARGEST:
            raise ValueError(f"multiple must be a number of columns from 1 to {_LARGEST}, found {multiple!r}")
        if unknown := set(settings) - {"multiple"}:
            raise ValueError(f"pad_trim takes multiple, found {', '.join(sorted(unknown))}")

    def install(self, training: Training, settings: Settings) -> None:
        if training.averages_gradients or training.this_rank is not None:
            raise NotApplicable("each of several ranks would find other widths in its part of a batch")
        for root in training.roots:
            if calls_compiled(root) or any(map(is_compiled, root.modules())):
                raise NotApplicable("the script compiles its model, which would be compiled for each width")
        self._torch = training.torch
        self._multiple = int(settings.get("multiple", MULTIPLE))
        self._proven = training.kept.setdefault(self.name, self._proven)
        training.forward_wrappers[self.name] = self._forward
        training.after_steps[self.name] = self._step_ended

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        training.after_steps.pop(self.name, None)

    # ---- a call of the model
    def _forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        proven: Proven | None = None
        found: Found | None = None
        try:
            tensors = tensors_of(self._torch, (args, kwargs))
            proven = self._of(root, tensors, args, kwargs)
            found = self._found(proven, tensors, root, args, kwargs)
        except Exception as error:  # ours: the script must not meet it
            self._give_up(proven or Proven(), f"it failed here with {type(error).__name__}: {error}")
        if proven is None or found is None:
            return call(*args, **kwargs)
        if proven.may_cut:
            return self._without_padding(proven, found, call, args, kwargs)
        output = call(*args, **kwargs)
        self._watch(proven, output, found)
        return output

    def _of(self, root: Module, tensors: Sequence[Tensor], args: Args, kwargs: Kwargs) -> Proven:
        records = self._torch.is_grad_enabled()
        mode = mode_of(self._torch, root, records, tensors, args, kwargs)
        modes = self._proven.setdefault(root, {})
        made = Proven(evaluates=not records, trains=root.training and records)
        if mode not in modes and len(modes) >= MOST_MODES:
            made.why_not = "the model is called in too many ways"
            return made
        return modes.setdefault(mode, made)

    def _found(
        self, proven: Proven, tensors: Sequence[Tensor], root: Module, args: Args, kwargs: Kwargs
    ) -> Found | None:
        """How this call can be cut; None if it is to be left alone."""
        self._calls += not proven.evaluates
        if proven.why_not:
            self._give_up(proven, proven.why_not)  # it was before the technique was off for a while
            return None
        found = find(tensors, proven.known, self._multiple)
        if found is None:
            return None
        proven.calls += 1
        if proven.is_due(found):
            began = time.perf_counter()
            outcome = rehearse(self._torch, root, args, kwargs, found, proven.calls, proven.rounding)
            proven.was_compared(found, outcome, time.perf_counter() - began)
            if proven.why_not:
                self._give_up(proven, proven.why_not)
        return None if proven.why_not or (proven.restored and not proven.trains) else found

    def _without_padding(
        self, proven: Proven, found: Found, call: Call, args: Args, kwargs: Kwargs
    ) -> object:
        torch = self._torch
        state = torch.get_rng_state()
        try:
            fewer, named = cut(torch, (args, kwargs), found.cuts)
            output = call(*fewer, **named)
            if kinds_of(tensors_of(torch, output)) != proven.kinds:
                raise ValueError("what it returns is not what was compared")
            if proven.restored:
                output = restore(torch, output, proven.restored, found)
                self._watch(proven, output, found)
        except Exception as error:  # one that is the script's own is raised again, by the whole call
            torch.set_rng_state(state)
            self._give_up(proven, f"without its padding a call fails with {type(error).__name__}: {error}")
            return call(*args, **kwargs)
        proven.cut += 1
        if not proven.evaluates:
            columns, of_all = found.columns
            self._cut += 1
            self._columns, self._all_columns = self._columns + columns, self._all_columns + of_all
        return output

    # ---- what the loss makes of padding
    def _watch(self, proven: Proven, output: object, found: Found) -> None:
        """Look at the gradient that comes back to what is returned for padding."""
        if proven.evaluates or not proven.watches:
            return
        proven.watches, proven.unconfirmed = False, 0
        for number, tensor in enumerate(tensors_of(self._torch, output)):
            dims = narrowed(proven.restored, number, found)
            untyped: Any = tensor  # as torch leaves register_hook
            if dims and tensor.requires_grad:
                untyped.register_hook(partial(self._gradient_came, proven, dims))

    def _gradient_came(self, proven: Proven, dims: Sequence[tuple[int, int, int]], gradient: Tensor) -> None:
        if any(bool(gradient.narrow(dim, kept, wide - kept).any()) for dim, kept, wide in dims):
            self._give_up(proven, "the loss depends on what the model returns for padding")
        else:
            proven.gradient_came()

    def _step_ended(self) -> None:
        for modes in self._proven.values():
            for proven in modes.values():
                proven.step_ended()

    def _give_up(self, proven: Proven, why_not: str) -> None:
        if proven.evaluates:
            proven.why_not = why_not
            return
        if why_not not in self._why_not and proven.is_old:
            say(f"hasten: pad_trim cuts nothing from here on: {why_not}")
        proven.why_not = why_not
        self._why_not[why_not] = None
        self._was_wrong = self._was_wrong or proven.cut > 0

    # ---- what came of it
    def seconds_in_steps(self) -> float:
        return sum(proven.set_up for modes in self._proven.values() for proven in modes.values())

    def proof(self, training: Training) -> Proof:
        """Counts the training passes whose padding was cut, and the columns; and how often the model was
        compared with itself, and how far its output was off. If a trimmed model fails a later comparison,
        there is no proof.
        """
        share = self._columns / max(1, self._all_columns)
        evidence = [f"{self._cut} of {self._calls} passes were cut, by {share:.0%} of their columns"]
        trained = [p for modes in self._proven.values() for p in modes.values() if not p.evaluates]
        if compared := sum(p.compared for p in trained):
            off = max(p.off for p in trained)
            allowed = max((p.rounding.returned for p in trained if p.rounding is not None), default=0.0)
            evidence.append(
                f"{compared} were compared, off by at most {off:.0e} where {allowed:.0e} is rounding"
            )
        evidence += self._why_not
        return Proof(self.name, self._cut > 0 and not self._was_wrong, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        multiple = settings.get("multiple", MULTIPLE)
        return (
            "longest = int(batch['attention_mask'].sum(1).max())    # of each batch\n"
            f"width = min(-(-longest // {multiple}) * {multiple}, batch['input_ids'].shape[1])\n"
            "batch = {k: v[:, :width] if v.dim() == 2 else v for k, v in batch.items()}"
        )
