"""Activations of repeated blocks are not kept but computed again in the backward pass (checkpointing).

It helps if memory decides which batch or model fits: only each block's input is kept. It costs about one more
forward pass of the blocks, a third of a step's arithmetic, so it does not make a step faster by itself. RNG
states are restored for the second pass, so dropout's masks are the same.

Source: https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.modules import batch_norm_kind, compiled_call, plain_call, put_call
from ..observing.compiling import BlockSlot
from ..observing.repeated_blocks import repeated_blocks
from ..seams import Args, Kwargs
from ..training import NotApplicable, Training
from .base import SAVES_MEMORY, Technique

if TYPE_CHECKING:
    from torch.nn import Module


class Checkpointing(Technique):
    name = "checkpointing"
    summary = "activations of repeated blocks computed again instead of kept"
    layer = "application"
    risk = "exact"
    scope = "live"
    not_tried = SAVES_MEMORY

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._blocks = 0
        self._forwards = 0
        self._runs = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not any(root.blocks for root in facts.observation.roots):
            return ["the model has no repeated blocks (children of one class, with children of their own)"]
        return []

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if not training.roots:
            return
        checkpoint = torch.utils.checkpoint.checkpoint
        reason = "no root has children of one class"

        def around(block: Module, args: Args, kwargs: Kwargs) -> object:
            if not torch.is_grad_enabled():
                return plain_call(block)(*args, **kwargs)
            self._forwards += 1

            def run(*args: object, **kwargs: object) -> object:
                self._runs += 1
                return plain_call(block)(*args, **kwargs)

            return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)

        for root in training.roots:
            for block in repeated_blocks(root):
                if any(isinstance(m, batch_norm_kind(torch)) for m in block.modules()):
                    reason = "its blocks have batch normalization, whose statistics would be taken twice"
                elif compiled_call(block) is None:
                    put_call(block, BlockSlot(block, around))
                    self._undo.append(_taking_out(weakref.ref(block)))
                    self._blocks += 1
        if not self._blocks:
            raise NotApplicable(reason)

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the runs of blocks beyond those in forward passes: these were recomputed."""
        again = self._runs - self._forwards
        evidence = f"{self._blocks} blocks; {self._forwards} forward passes, {again} computed again"
        return Proof(self.name, again > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "for block in self.blocks:    # in the model's forward\n"
            "    x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
        )


def _taking_out(ref: weakref.ref[Module]) -> Callable[[], None]:
    def undo() -> None:
        block = ref()
        if block is not None and isinstance(compiled_call(block), BlockSlot):
            put_call(block, None)

    return undo
