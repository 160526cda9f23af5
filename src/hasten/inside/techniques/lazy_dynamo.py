"""torch's compiler is imported only once something uses it.

What it does: every torch optimizer imports ``torch._dynamo`` when it is created, which takes about a second,
to mark what a compiler must leave alone. A training that compiles nothing never reads these marks. Until
something needs the compiler itself, a small module replaces it; then the real one is imported, and the marks
are made.

When it helps: runs are short, a minute or two: tutorials, tests, searches for hyperparameters, one process
per trial. It saves the same time in every run, and nothing in a step. When it hurts: the heap is smaller, and
glibc's allocator may give memory back after each step and take it again. ``malloc`` prevents that, and a tune
tries both together. If the script or a library imports the compiler itself, it has no effect.

Source: https://github.com/pytorch/pytorch/blob/main/torch/_compile.py
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals import lazy_dynamo
from ..observing.uses import IMPORTS_COMPILER
from ..training import NotApplicable, Training
from .base import Technique, conflicting


class LazyDynamo(Technique):
    name = "lazy_dynamo"
    summary = "torch's compiler is imported only once something uses it"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    parts = ("start",)
    conflicts = conflicting(compile="it uses the compiler")

    def __init__(self) -> None:
        self._kept_out: bool | None = None  # until the first step

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        if "compile" in seen.uses or any(root.compiled for root in seen.roots):
            return ["the script compiles its model"]
        if IMPORTS_COMPILER in seen.uses:
            return [f"the script, or a library it imports, imports {lazy_dynamo.NAME} itself"]
        return []

    @classmethod
    def together_with(cls, settings: Settings, facts: Facts) -> dict[str, Settings]:
        """Both shorten the start alone, and starts take long to compare."""
        return {"frozen_imports": {}}

    def start(self, training: Training, settings: Settings) -> None:
        if not lazy_dynamo.put_in_place():
            raise NotApplicable(f"{lazy_dynamo.NAME} was imported before torch had been")
        training.seams.on_undo(lazy_dynamo.take_away)

    def install(self, training: Training, settings: Settings) -> None:
        if self._kept_out is None:
            self._kept_out = lazy_dynamo.is_lazy()

    def proof(self, training: Training) -> Proof:
        """Checks whether the compiler was imported before the first step: anything later is not the start."""
        if self._kept_out:
            return Proof(self.name, True, f"{lazy_dynamo.NAME} was not imported before the first step")
        return Proof(self.name, False, f"something imported {lazy_dynamo.NAME} before the first step")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# torch has no switch for it. An optimizer of your own, without torch.optim.Optimizer,\n"
            "# imports no compiler."
        )
