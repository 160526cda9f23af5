"""One fused kernel for the whole optimizer update instead of several passes over every tensor.

Source: https://docs.pytorch.org/docs/stable/optim.html (the ``fused`` argument)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..identify import FUSED_FUNCTIONS, why_not_fused
from ..training import NotApplicable, Training
from .base import Technique


class FusedOptimizer(Technique):
    name = "fused_optimizer"
    summary = "the optimizer's update in one fused kernel"
    layer = "application"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._updates = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        optimizers = facts.observation.optimizers
        if not optimizers:
            return ["the script has no torch optimizer"]
        if all(optimizer.fused for optimizer in optimizers):
            return ["the script already asks for the fused form"]
        if not any(optimizer.can_fuse and not optimizer.fused for optimizer in optimizers):
            return sorted({optimizer.why_not for optimizer in optimizers if optimizer.why_not})
        return []

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        chosen = [
            o
            for o in training.optimizers
            if not why_not_fused(torch, o) and not o.param_groups[0].get("fused")
        ]
        if not chosen:
            raise NotApplicable("no optimizer of the script's has a fused form")
        for module, function in {FUSED_FUNCTIONS[type(o).__name__] for o in chosen}:
            counted = training.seams.replace(
                importlib.import_module(f"torch.optim.{module}"), function, self._counting
            )
            self._undo.append(counted)
        for optimizer in chosen:
            self._fuse(optimizer)

    def _counting(self, original: Any) -> Any:
        def fused(*args: Any, **kwargs: Any) -> Any:
            self._updates += 1
            return original(*args, **kwargs)

        return fused

    def _fuse(self, optimizer: Any) -> None:
        before = [(group, group.get("fused")) for group in optimizer.param_groups]
        scaling = optimizer.__dict__.get("_step_supports_amp_scaling")

        def set_fused(_: Any = None) -> None:
            for group in optimizer.param_groups:
                group["fused"] = True

        def as_the_script_set_it(_: Any, state: dict[str, Any]) -> dict[str, Any]:
            """Checkpoints must not carry our flag."""
            groups = [
                {**group, "fused": flag}
                for group, (_, flag) in zip(state["param_groups"], before, strict=False)
            ]
            return {**state, "param_groups": groups + state["param_groups"][len(before) :]}

        hooks = [
            optimizer.register_load_state_dict_post_hook(set_fused),
            optimizer.register_state_dict_post_hook(as_the_script_set_it),
        ]
        set_fused()
        optimizer._step_supports_amp_scaling = True

        def undo() -> None:
            for hook in hooks:
                hook.remove()
            for group, flag in before:
                group["fused"] = flag
            if scaling is None:
                optimizer.__dict__.pop("_step_supports_amp_scaling", None)
            else:
                optimizer._step_supports_amp_scaling = scaling

        self._undo.append(undo)

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, self._updates > 0, f"{self._updates} fused updates")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "optimizer = torch.optim.Adam(model.parameters(), ..., fused=True)"
