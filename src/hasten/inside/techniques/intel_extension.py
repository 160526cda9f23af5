"""Intel's extension of torch: other layers, weights laid out for them, and a fused optimizer.

It helped on Intel processors with torch up to 2.8; most of it is in torch itself since. Its makers ended it
with version 2.8, and a version only works with the torch of the same number. It hurts if it replaces a
model's layers without need. It exchanges parts of the model and cannot be undone: it needs a separate
process.

Source: https://intel.github.io/intel-extension-for-pytorch/cpu/latest/ (optimize);
https://github.com/intel/intel-extension-for-pytorch/issues/867 (its end)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import NotApplicable, Training
from .base import Technique

if TYPE_CHECKING:
    from torch.nn import Module

_PACKAGE = "intel_extension_for_pytorch"


class IntelExtension(Technique):
    name = "intel_extension"
    summary = "layers and optimizer of Intel's extension of torch"
    layer = "environment"
    risk = "close"
    scope = "process"

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if _PACKAGE in machine.packages:
            return []
        return [f"{_PACKAGE} is not installed; it ended with torch 2.8, and most of it is in torch now"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not reasons:
            version, torch = facts.machine.packages[_PACKAGE], facts.observation.torch
            if version.split(".")[:2] != torch.split(".")[:2]:
                reasons.append(f"{_PACKAGE} {version} does not work with torch {torch}")
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        """Optimizes each root once, those that came since the last call included."""
        try:
            extension = importlib.import_module(_PACKAGE)
        except (
            ImportError,
            OSError,
            SystemExit,
        ) as error:  # another torch's: it fails to load, or ends Python
            raise NotApplicable(f"{_PACKAGE} cannot be loaded: {error}") from None
        done: dict[int, Module] = training.kept.setdefault(self.name, {})
        for root in training.roots:
            if id(root) in done:
                continue
            mine = {id(parameter) for parameter in root.parameters()}
            owners = [
                optimizer
                for optimizer in training.optimizers
                if all(id(p) in mine for group in optimizer.param_groups for p in group["params"])
            ]
            if len(owners) != 1:
                raise NotApplicable(f"{len(owners)} optimizers train exactly the model; it needs one")
            extension.optimize(root, optimizer=owners[0], inplace=True)
            done[id(root)] = root

    def proof(self, training: Training) -> Proof:
        """Checks that the extension's own layers are in the models."""
        roots = training.kept.get(self.name, {}).values()
        theirs = sum(type(part).__module__.startswith(_PACKAGE) for root in roots for part in root.modules())
        return Proof(self.name, theirs > 0, f"{theirs} layers of the extension are in the model")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            f"import {_PACKAGE} as ipex\n"
            "model, optimizer = ipex.optimize(model, optimizer=optimizer)    # before the first step"
        )
