"""Parameter groups of equal hyperparameters are updated together, as if they were one.

It helps scripts that create a parameter group for each layer or each parameter, as recipes for weight decay
and layer-wise learning rates do: the update calls its kernels once for each group. It does nothing for a few
groups, or if all of them differ. The script's own ``param_groups`` stay as they are: schedules, logs and
checkpoints see every group, and groups whose hyperparameters change are separated in that very step. With
``foreach``, the update needs memory for temporary copies of the largest group, which grows.

It is for torch's own optimizers that update each parameter independently; results are equal bit for bit.

Source: https://github.com/roboflow/rf-detr/pull/1409
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.phases import phase_share
from ...records.plan import Settings
from ...records.thresholds import LEAST_SHARE
from ...records.trial import Proof
from ..internals.compiler import runs_compiled
from ..observing.parameter_groups import Group, Merging, why_not_merged
from ..seams import Args, Kwargs
from ..training import NotApplicable, Training
from .base import Technique, conflicting

if TYPE_CHECKING:
    from torch.optim import Optimizer

LEAST_GROUPS = 8


class MergeGroups(Technique):
    name = "merge_groups"
    summary = "parameter groups of equal hyperparameters updated as one"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True
    phases = ("optimizer",)
    conflicts = conflicting(optimizer_in_backward="each parameter is updated by itself")

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._merged: list[_Merged] = []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        found = facts.observation.optimizers
        if not found:
            return ["the script has no torch optimizer"]
        able = [optimizer for optimizer in found if not optimizer.why_not_merged]
        if not able:
            return sorted({optimizer.why_not_merged for optimizer in found})
        most = max(able, key=lambda optimizer: optimizer.groups)
        if most.groups < LEAST_GROUPS:
            return [f"no optimizer has {LEAST_GROUPS} parameter groups or more: one has {most.groups}"]
        saved = max((1 - o.distinct_groups / o.groups for o in able if o.groups >= LEAST_GROUPS), default=0.0)
        if not saved:
            return [f"each of {most.groups} parameter groups has hyperparameters of its own"]
        bound = saved * phase_share(facts.observation, "optimizer")
        if facts.observation.steps and bound < LEAST_SHARE:
            return [f"it could save {bound:.1%} of a step at most: the update takes no more"]
        return []

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        several = [o for o in training.optimizers if len(o.param_groups) > 1]
        if not several:
            raise NotApplicable("no optimizer of the script's has several parameter groups")
        chosen = [o for o in several if not why_not_merged(torch, o)]
        if not chosen:
            raise NotApplicable("; ".join(sorted({why_not_merged(torch, o) for o in several})))
        for optimizer in chosen:
            merged = _Merged(torch, optimizer)
            self._merged.append(merged)
            self._undo.append(optimizer.register_step_pre_hook(merged.before_step).remove)

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the parameter groups that steps read, and those of the script that they stand for."""
        steps = sum(each.steps for each in self._merged)
        own, read = sum(each.own for each in self._merged), sum(each.read for each in self._merged)
        if not steps:
            return Proof(self.name, False, "no step of an optimizer with several parameter groups")
        return Proof(
            self.name, read < own, f"{own / steps:.0f} parameter groups updated as {read / steps:.0f} a step"
        )

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "groups = {}\n"
            "for group in parameter_groups:    # as given to the optimizer\n"
            '    key = tuple(sorted((k, v) for k, v in group.items() if k != "params"))\n'
            '    groups.setdefault(key, {**group, "params": []})["params"] += group["params"]\n'
            "optimizer = torch.optim.AdamW(groups.values(), ...)"
        )


class _Merged:
    """One optimizer whose steps read merged groups. ``own``: groups of the script's, over all ``steps``, that
    were ``read`` as so many.
    """

    def __init__(self, torch: ModuleType, optimizer: Optimizer) -> None:
        self._torch = torch
        self._merging = Merging(torch, optimizer)
        self.steps = self.own = self.read = 0

    def before_step(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        """Let the step see a likeness of the optimizer in its place, which differs in its groups alone."""
        compiled = self._torch.compiler.is_compiling() or runs_compiled()
        if compiled or not args or args[0] is not optimizer:
            return None
        likeness: Optimizer = object.__new__(type(optimizer))
        _make_like(likeness, optimizer, _AsRead(self, optimizer, likeness))
        return (likeness, *args[1:]), kwargs

    def merge(self, optimizer: Optimizer) -> list[Group]:
        groups = self._merging.merged(optimizer)
        self.steps += 1
        self.own += len(optimizer.param_groups)
        self.read += len(groups)
        return groups


class _AsRead(list[Group]):
    """The optimizer's groups, merged when the step begins to read them: a closure, or another's hook, may
    have changed them since the step began.
    """

    def __init__(self, merged: _Merged, optimizer: Optimizer, likeness: Optimizer) -> None:
        super().__init__(optimizer.param_groups)
        self._merged, self._optimizer = merged, optimizer
        self._likeness = weakref.ref(likeness)  # no cycle: that would keep the model until it is collected

    def __iter__(self) -> Iterator[Group]:
        likeness = self._likeness()
        if likeness is not None:
            _make_like(likeness, self._optimizer, self)
        return iter(self._merged.merge(self._optimizer))


def _make_like(likeness: Optimizer, optimizer: Optimizer, groups: list[Group]) -> None:
    mine: dict[str, Any] = vars(likeness)
    mine.clear()
    mine.update(vars(optimizer), param_groups=groups)
